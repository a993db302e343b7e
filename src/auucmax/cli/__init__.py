"""The command line: one short file a command, each a read, a library call and a print."""

from __future__ import annotations

from typing import Annotated

import typer

from auucmax import __version__
from auucmax.cli.demo import demo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Rank people by how much a treatment helps them, and say how sure you are.",
)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"auucmax {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="And stop.")
    ] = False,
) -> None:
    """Options before the command's name."""


def main() -> None:
    """Entry point of the ``auucmax`` command."""
    app()
