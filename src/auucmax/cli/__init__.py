"""The command line: commands that read, call the library and print."""

from __future__ import annotations

import gc
import os
from typing import Annotated

import typer

from auucmax._version import __version__
from auucmax.cli.assign import assign
from auucmax.cli.evaluate import compare, evaluate
from auucmax.cli.export import export
from auucmax.cli.fit import check, demo, fit
from auucmax.cli.frame import Command, Commands
from auucmax.cli.monitor import monitor
from auucmax.cli.plan import plan
from auucmax.cli.report import report
from auucmax.cli.target import target
from auucmax.cli.verify import verify

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Rank people by how much a treatment helps them, and report how certain the ranking is.",
    epilog="The commands are listed in the order in which a project uses them. To see what they do "
    "without data of your own, run `auucmax demo`.",
)
for command in (
    plan, assign, monitor, check, fit, compare, evaluate, target, verify, report, export, demo,
):  # fmt: skip
    app.command(cls=Command)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"auucmax {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of ``auucmax`` itself."""


def main() -> None:
    """Entry point of the ``auucmax`` command."""
    # Read when NumPy is imported. Matrices are small: a second thread waits for work, and waiting
    # takes as much of a processor as working; what is large runs in threads of our own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Libraries make 150,000 objects when they are imported, none of them garbage.
    gc.set_threshold(50_000)
    app()
