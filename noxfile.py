"""The one tool for every check: ``nox`` runs lint and tests, ``nox -s NAME`` one session."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def tests(session: nox.Session) -> None:
    """The inner loop, three minutes; ``nox -s tests -- tests/bounds`` for some of it."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def gate(session: nox.Session) -> None:
    """All slower tests, with the libraries that we compare with."""
    session.install("-e", ".[test,bench]")
    session.run("pytest", "-m", "gate", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, format, types and the order of imports."""
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in ``site/``."""
    session.install("-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The inner loop at the lowest versions of all dependencies; ``-- --compile`` finds them."""
    if "--compile" in session.posargs:
        session.install("uv")
        extras = [part for extra in LOWEST for part in ("--extra", extra)]
        session.run(
            "uv", "pip", "compile", "--resolution", "lowest-direct", "--python-version", "3.11",
            *extras, "--no-annotate", "--no-header", "-o", "constraints-lowest.txt",
            "pyproject.toml",
        )  # fmt: skip
    session.install("-e", ".[test]", "-c", "constraints-lowest.txt")
    # Of old libraries beside new ones, on what they will change.
    session.run("python", "-m", "pytest", "-W", "default")


#: Extras whose lowest versions are tried; torch and PySpark are gigabytes, and stay as they are.
LOWEST = ("plot", "arrow", "lightgbm", "excel", "onnx", "postgres", "mlflow", "warehouse")


@nox.session
def release(session: nox.Session) -> None:
    """Check, build and tag; ``nox -s release -- --dry-run`` leaves the tag out."""
    session.install("build", "twine")
    session.run("python", "release.py", *session.posargs)
