"""``auucmax fit``: from a table to a model file with its own evidence."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from auucmax.cli.frame import command
from auucmax.cli.options import COLUMNS, SEED, SOURCE, Cost, Data, ModelName, Output, amounts
from auucmax.cli.output import Answer
from auucmax.cli.tables import Source, file_name, read_rows_of_trial


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
            help="Share of the rows that the model is not trained on, but judged and certified on; "
            "0: cross-fitting, which trains on every row."
        ),
    ] = 0.0,
    n_candidates: Annotated[
        int,
        typer.Option(
            "--candidates",
            help="Number of models that you tried on these rows to keep this one: the certificate "
            "pays for all of them.",
        ),
    ] = 1,
    cost: Cost = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="With several arms: money per person, fixed before looking at the rows, at which "
            "the policy is certified."
        ),
    ] = None,
    despite_check: Annotated[
        bool,
        typer.Option(
            "--despite-check",
            help="Fit even if the check of the trial fails; there is no certificate then.",
        ),
    ] = False,
) -> Answer:
    """Fit a model of who gains from treatment, and judge it on rows that it was not trained on.

    Numbers, texts, dates and missing values are encoded by the model itself. Every row is scored by
    a model that was trained on other rows; the model that is saved is trained on all of them. All
    labels of the treatment but the control are arms, unless --treated names one. A trial that fails
    its check is not fitted: exit code 1. --details shows all numbers.
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
