"""A real PostgreSQL server in a temporary folder, for tests that need one.

Use ``with postgres_server() as url``. It skips the test, with the reason, where there is no server
program, or no user other than root to run it as.
"""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def _program(name: str) -> str | None:
    versions = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)
    return next(iter(versions), None) or shutil.which(name)


def _other_user() -> pwd.struct_passwd | None:
    """Whom to be if we are root, as which initdb refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


@contextmanager
def postgres_server() -> Iterator[str]:
    """Address of an empty database ``trials`` of a server that ends with the block."""
    initdb, postgres = _program("initdb"), _program("postgres")
    if initdb is None or postgres is None:
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    user = _other_user()
    how = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data, secret = folder / "data", folder / "secret"
        secret.write_text("pass-word\n")
        secret.chmod(0o644)
        made = subprocess.run(
            [initdb, "-D", data, "-U", "tester", f"--pwfile={secret}", "-A", "scram-sha-256",
             "--no-sync", "--encoding=UTF8", "--locale=C"],
            capture_output=True, text=True, check=False, cwd=folder, **how,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"initdb fails here: {made.stderr.strip().splitlines()[-1:]}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [postgres, "-D", data, "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
                stdout=log, stderr=log, cwd=folder, **how,
            )  # fmt: skip
        try:
            address = f"postgresql://tester:pass-word@127.0.0.1:{port}"
            _wait(server, f"{address}/postgres", folder / "log")
            yield f"{address}/trials"
        finally:
            server.terminate()
            server.wait(timeout=300)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Until the server answers; then make the database."""
    import time

    import psycopg

    for _ in range(1_500):
        if server.poll() is not None:
            pytest.skip(f"postgres ends at once: {log.read_text().strip().splitlines()[-1:]}")
        try:
            with psycopg.connect(url, autocommit=True, connect_timeout=60) as connection:
                connection.execute("CREATE DATABASE trials")
            return
        except psycopg.OperationalError:
            time.sleep(0.2)
    raise TimeoutError("the server did not answer")
