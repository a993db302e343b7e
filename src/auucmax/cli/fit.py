"""``auucmax fit``: from a table to a model file with its own evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from auucmax.cli.failures import tells_failures
from auucmax.cli.options import (
    AsJson,
    Control,
    Data,
    Features,
    Id,
    Ignore,
    Memory,
    Outcome,
    Query,
    Seed,
    Treated,
    Treatment,
)
from auucmax.cli.output import print_json, print_rows, working

ModelName = Annotated[
    str, typer.Option("--model", "-m", help="auucmax, tm, cvt, ddr, sdr, svm-dp, mml, mom, pcg, "
                      "ndcg, tarnet, cfrnet or ganite.")
]  # fmt: skip
Output = Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")]


@tells_failures
def fit(
    data: Data,
    treatment: Treatment,
    outcome: Outcome,
    output: Output,
    treated: Treated = None,
    control: Control = None,
    id: Id = None,
    features: Features = None,
    ignore: Ignore = None,
    model: ModelName = "auucmax",
    test_share: Annotated[float, typer.Option(help="Share of rows kept to judge the model.")] = 0.3,
    calibration_share: Annotated[
        float, typer.Option(help="Share of rows kept to turn scores into uplift; 0 for none.")
    ] = 0.2,
    seed: Seed = 0,
    query: Query = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Learn whom to treat from a trial, and judge it on rows that were set aside.

    Numbers, texts, dates and missing values are taken as they are: the encoding is part of the
    model. Rows are dealt to training, calibration and test by a hash of the id, or of their place
    in the file; the model remembers which, and no command judges it on rows that it learnt from.
    """
    from auucmax._files import check_target
    from auucmax.cli.trials import column_options, read_rows
    from auucmax.trial_model import fit_trial_model, save_model

    check_target(output, data)
    table = read_rows(data, query, memory)
    named = column_options(
        table, treatment=treatment, outcome=outcome, treated=treated, control=control, id=id,
        features=features, ignore=ignore,
    )  # fmt: skip
    with working(f"fitting {model}", table):
        fitted = fit_trial_model(
            table, **named, model=model, test_share=test_share,
            calibration_share=calibration_share, random_state=seed,
        )  # fmt: skip
        save_model(fitted, output)
    if as_json:
        print_json(fitted.summary | {"file": str(output)})
        return
    print_rows(f"{model} for {outcome}", _told(fitted.summary), (f"Written to {output}.",))


def _told(summary: dict[str, Any]) -> dict[str, str]:
    parts, test = summary["rows"]["parts"], summary["test"]
    low, high = test["interval"]
    gain_low, gain_high = test["gain_interval"]
    told = {
        "rows to learn, calibrate, judge": ", ".join(
            f"{sum(part.values()):,}" for part in parts.values()
        ),
        "columns": f"{summary['features']['columns']} as {summary['features']['terms']} features",
        "randomisation": summary["randomisation"]["verdict"],
        "effect of treating everybody": f"{_effect(summary):+.4f} in {summary['outcome']['name']}",
        "AUUC of the ranking": f"{test['estimate']:.5f} ({low:.5f} to {high:.5f})",
        "gain over a random order": f"{test['gain']:+.5f} ({gain_low:+.5f} to {gain_high:+.5f})",
        "certificate": summary["certificate"]["text"],
    }
    if left_out := summary["rows"]["left_out"]:
        named = ", ".join(f"{name} {count:,}" for name, count in left_out.items())
        told["rows of other arms, left out"] = named
    if dropped := summary["features"]["dropped"]:
        told["columns without use"] = "; ".join(f"{name}: {why}" for name, why in dropped.items())
    return told


def _effect(summary: dict[str, Any]) -> float:
    outcome = summary["outcome"]
    return float(outcome["test_mean_treated"] - outcome["test_mean_control"])
