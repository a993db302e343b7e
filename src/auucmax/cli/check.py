"""``auucmax check``: test the randomisation of a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    COLUMNS,
    SOURCE,
    Data,
    Source,
    amounts,
    file_name,
    read_rows_of_trial,
    shared,
)

_LEFT_OUT = ("id", "lower_is_better", "outcome_range", "drop_missing_outcomes")
_ID = shared("id", str | None, "Column that identifies each row.", metavar="COLUMN")


@command(columns=(*(own for own in COLUMNS if own.name not in _LEFT_OUT), _ID), source=SOURCE)
def check(
    data: Data,
    columns: dict[str, Any],
    source: Source,
    expected_share: Annotated[
        str | None,
        typer.Option(
            help='Planned share of treated rows, such as .5, or one per arm: "A=.3,B=.3".'
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write an HTML page with arms, balance and columns.")
    ] = None,
) -> Answer:
    """Check a trial: was it randomised, how large is the effect, and how small an
    effect could it detect?

    Tests every column known before treatment, whether or not a model may use it. The check
    compares the share of rows without an outcome between arms, then drops them. The exit code is 1
    if the check fails or nothing could be tested. --details shows all tests.
    """
    from auucmax._files import check_target
    from auucmax.model.check import check_trial

    if page is not None:
        check_target(page, data)
    shares = amounts("expected_share", expected_share)
    trial = read_rows_of_trial(data, source, columns | {"drop_missing_outcomes": True})
    found = check_trial(trial, expected_share=shares)
    if page is not None:
        from auucmax.present.page import write_check

        write_check(found, page, file=file_name(data))
    return Answer(found, saved=page, failed=found.failed)
