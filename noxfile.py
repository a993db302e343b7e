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
    """The lowest versions that ``pyproject.toml`` allows; ``-- --compile`` finds them anew."""
    if "--compile" in session.posargs:
        session.install("uv")
        session.run(
            "uv", "pip", "compile", "--resolution", "lowest-direct", "--python-version", "3.11",
            "--extra", "plot", "--extra", "arrow", "--extra", "lightgbm", "--no-annotate",
            "--no-header", "-o", "constraints-lowest.txt", "pyproject.toml",
        )  # fmt: skip
    session.install("-e", ".[plot,arrow,lightgbm]", "-c", "constraints-lowest.txt")
    session.install(
        "hypothesis", "psutil", "pytest", "pytest-xdist", "-c", "constraints-lowest.txt"
    )
    session.run("python", "-m", "pytest", *LOWEST)


#: What the lowest versions are tried with: every estimator, number, reader and command once.
LOWEST = (
    "-W", "default", "tests/bounds", "tests/encoding", "tests/estimators/test_all.py",
    "tests/evaluation", "tests/pairs", "tests/rows", "tests/targeting", "tests/cli/test_fit.py",
    "tests/cli/test_target.py", "tests/cli/test_check.py",
)  # fmt: skip


@nox.session
def release(session: nox.Session) -> None:
    """Check, build and tag; ``nox -s release -- --dry-run`` leaves the tag out."""
    session.install("build", "twine")
    session.run("python", "release.py", *session.posargs)
