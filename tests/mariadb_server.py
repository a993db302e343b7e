"""A real MariaDB server in a temporary folder, for tests of what speaks to MySQL.

Use ``with mariadb_server() as url``. It skips the test, with the reason, where there is no server
program, or no user other than root to run it as.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_PEOPLE = """
CREATE DATABASE trials;
CREATE USER tester@'127.0.0.1' IDENTIFIED BY 'pass-word';
GRANT ALL ON *.* TO tester@'127.0.0.1';
"""


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    return found or pytest.skip(f"MariaDB ({name}) is not installed")


def _as_another() -> dict[str, Any]:
    """Whom to be if we are root, as which the server refuses to run."""
    if os.geteuid() != 0:
        return {}
    for name in ("mysql", "nobody"):
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("MariaDB does not run as root, and there is no user mysql or nobody")


@contextmanager
def mariadb_server() -> Iterator[str]:
    """Address of an empty database ``trials`` of a server that ends with the block."""
    install, program, how = _program("mariadb-install-db"), _program("mariadbd"), _as_another()
    folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
    try:
        (folder / "first.sql").write_text(_PEOPLE)
        if how:
            os.chown(folder, how["user"], how["group"])
        made = subprocess.run(
            [install, "--no-defaults", f"--datadir={folder / 'data'}", "--skip-test-db",
             "--auth-root-authentication-method=normal", "--innodb-flush-log-at-trx-commit=0"],
            capture_output=True, text=True, check=False, cwd=folder, **how,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"mariadb-install-db fails here: {made.stderr.strip().splitlines()[-1:]}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [program, "--no-defaults", f"--datadir={folder / 'data'}", f"--port={port}",
                 f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}",
                 "--character-set-server=utf8mb4", "--bind-address=127.0.0.1",
                 "--skip-name-resolve", f"--tmpdir={folder}",
                 f"--init-file={folder / 'first.sql'}", "--innodb-flush-log-at-trx-commit=0"],
                stdout=log, stderr=log, cwd=folder, **how,
            )  # fmt: skip
        try:
            _wait(server, port, folder / "log")
            yield f"mysql://tester:pass-word@127.0.0.1:{port}/trials"
        finally:
            server.terminate()
            server.wait(timeout=300)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until the server answers, which it does after its first statements."""
    for _ in range(1_500):
        if server.poll() is not None:
            pytest.skip(f"mariadbd ends at once: {log.read_text().strip().splitlines()[-1:]}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60):
            return
        time.sleep(0.2)
    raise TimeoutError("the server did not answer")


def connected(url: str) -> Any:
    """A connection of the driver that ibis has for MySQL; skips where it is not installed."""
    driver = pytest.importorskip("MySQLdb", reason="the driver mysqlclient is not installed")
    parts = urlsplit(url)
    return driver.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
        database=parts.path[1:], autocommit=True, charset="utf8mb4",
    )  # fmt: skip
