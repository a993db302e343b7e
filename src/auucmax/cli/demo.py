"""``auucmax demo``: the whole workflow on the embedded trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auucmax.cli.frame import Answer, command
from auucmax.cli.options import ModelName

SHARE = 0.3


@command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "auucmax-demo.html"
    ),
    model: ModelName = "auto",
) -> Answer:
    """Try everything on Hillstrom's e-mail trial of 2008: check, fit, target and report.

    The trial is part of the package: no data and no network are needed.
    """
    import auucmax
    from auucmax._files import check_target
    from auucmax.present.page import write_report

    check_target(output)
    trial = auucmax.load_hillstrom(encoding="raw")
    fitted = auucmax.fit(trial, model)
    found = fitted.target(trial.X, share=SHARE)
    write_report(fitted, output, share=SHARE, n_people=trial.n_rows)
    return Answer(found, saved=output)
