"""``auucmax check``, ``fit`` and ``demo``: test a trial, fit a model, try everything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax.cli.frame import Answer, command
from auucmax.cli.options import (
    COLUMNS,
    SEED,
    SOURCE,
    Cost,
    Data,
    ModelName,
    Output,
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
    """Check a trial: was it randomised, what was the effect, how small an effect could it detect?

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


@command(columns=COLUMNS, how=SEED, source=SOURCE)
def fit(
    data: Data,
    output: Output,
    columns: dict[str, Any],
    how: dict[str, Any],
    source: Source,
    model: ModelName = "auto",
    hold_out: Annotated[
        float,
        typer.Option(
            help="Share of rows held out for evaluation and guarantee. 0: cross-fitting, which "
            "trains on every row."
        ),
    ] = 0.0,
    n_candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            help="Number of models that you tried on these rows before choosing this one; the "
            "guarantee accounts for all of them.",
        ),
    ] = 1,
    cost: Cost = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="With several arms: budget per person, fixed before looking at the rows, for "
            "which the policy gets a guarantee."
        ),
    ] = None,
    despite_check: Annotated[
        bool,
        typer.Option(
            "--despite-check",
            help="Fit even if the check fails; the model then has no guarantee.",
        ),
    ] = False,
) -> Answer:
    """Fit a model that ranks people by treatment effect, and evaluate it on held-out rows.

    Numbers, text, dates and missing values are encoded automatically. Every row is scored by a
    model trained on other rows; the saved model is trained on all rows. All treatment labels except
    the control are arms, unless --treated names one. If the trial fails its check, nothing is
    fitted and the exit code is 1. --details shows all numbers.
    """
    from dataclasses import replace

    import auucmax
    from auucmax._files import check_target

    check_target(output, data)
    costs = amounts("cost", cost)
    fitted = auucmax.fit(
        read_rows_of_trial(data, source, columns), model, cost=costs, budget=budget,
        hold_out=hold_out, n_candidates=n_candidates, despite_check=despite_check, **how,
    )  # fmt: skip
    fitted = replace(fitted, info=replace(fitted.info, file=file_name(data)))
    fitted.save(output)
    return Answer(fitted, saved=output, model=output)


@command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path(
        "auucmax-demo.html"
    ),
    model: ModelName = "auto",
) -> Answer:
    """Try everything on Hillstrom's e-mail trial of 2008: check, fit, target and report.

    An e-mail is assumed to cost 0.50 USD, and a visit to be worth 12 USD. The trial is part of the
    package: no data and no network are needed.
    """
    import auucmax
    from auucmax._files import check_target
    from auucmax.present.page import write_report

    check_target(output)
    trial = auucmax.load_hillstrom(encoding="raw")
    fitted = auucmax.fit(trial, model)
    terms: dict[str, Any] = {"cost": 0.5, "value": 12.0}
    found = fitted.target(trial.X, **terms)
    write_report(fitted, output, **terms, currency="USD", n_people=trial.n_rows)
    return Answer(found, saved=output)
