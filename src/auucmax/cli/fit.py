"""``auucmax fit``: fit a model and evaluate it."""

from __future__ import annotations

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
)


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
