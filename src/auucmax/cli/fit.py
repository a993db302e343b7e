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
from auucmax.cli.output import between, print_json, print_rows, working

ModelName = Annotated[
    str, typer.Option("--model", "-m", help="auucmax, tm, cvt, ddr, sdr, svm-dp, mml, mom, pcg, "
                      "ndcg, tarnet, cfrnet or ganite.")
]  # fmt: skip
GoneShare = Annotated[str | None, typer.Option("--test-share", hidden=True)]
GoneCalibration = Annotated[str | None, typer.Option("--calibration-share", hidden=True)]
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
    hold_out: Annotated[
        float,
        typer.Option(
            "--hold-out",
            help="Share of rows that the model does not learn from, to judge and certify itself "
            "on them; 0: cross-fitting, where every row is learnt from.",
        ),
    ] = 0.0,
    forget_rows: Annotated[
        bool,
        typer.Option(
            "--forget-rows",
            help="Keep no filter of hashed rows: `evaluate` cannot tell then whether rows are new.",
        ),
    ] = False,
    test_share: GoneShare = None,
    calibration_share: GoneCalibration = None,
    seed: Seed = 0,
    query: Query = None,
    memory: Memory = None,
    as_json: AsJson = False,
) -> None:
    """Learn whom to treat from a trial, and judge it by rows that a model has not seen.

    Numbers, texts, dates and missing values are taken as they are: the encoding is part of the
    model. Every row is judged by a model that was fitted on other rows, dealt by a hash of the id,
    or of the place in the file; the model that is written learns from all rows.
    """
    from auucmax._files import check_target
    from auucmax.cli.trials import column_options, read_rows
    from auucmax.trial_model import fit_trial_model, save_model

    _check_gone(test_share=test_share, calibration_share=calibration_share)
    check_target(output, data)
    table = read_rows(data, query, memory)
    named = column_options(
        table, treatment=treatment, outcome=outcome, treated=treated, control=control, id=id,
        features=features, ignore=ignore,
    )  # fmt: skip
    with working(f"fitting {model}", table):
        fitted = fit_trial_model(
            table, **named, model=model, hold_out=hold_out, forget_rows=forget_rows,
            random_state=seed,
        )  # fmt: skip
        save_model(fitted, output)
    found = fitted.summary | fitted.evidence.facts
    if as_json:
        print_json(found | {"file": str(output)})
        return
    notes = (*found["notes"], f"Written to {output}.")
    print_rows(f"{model} for {outcome}", _told(found, outcome), notes)


def _check_gone(**options: str | None) -> None:
    for name, given in options.items():
        if given is not None:
            raise ValueError(
                f"--{name.replace('_', '-')} should be left out, got {given}: every row is learnt "
                f"from and judged now. --hold-out 0.3 sets rows aside as before."
            )


def _told(found: dict[str, Any], outcome: str) -> dict[str, str]:
    rows, auuc, effect = found["rows"], found["auuc"], found["effect"]
    told = {
        "rows to learn from": f"{found['table']['learnt']:,}",
        "rows to judge on": f"{rows['n_rows']:,} ({rows['treated']:,} treated)",
        "columns": f"{found['features']['columns']} as {found['features']['terms']} features",
        "randomisation": found["randomisation"]["verdict"],
        "effect of treating everybody": between(effect, "estimate", "lower", "upper", 4, sign=True)
        + f" in {outcome}",
        "AUUC of the ranking": between(auuc, "estimate", "lower", "upper", 5),
        "gain over a random order": between(auuc, "gain", "gain_lower", "gain_upper", 5, sign=True),
        "certificate": (found["certificate"] or {"text": "none"})["text"],
    }
    for rival in found["rivals"]:
        difference = between(rival["difference"], "estimate", "lower", "upper", 5, sign=True)
        verdict = rival["verdict"]
        words = verdict if verdict == "not told apart" else f"{rival['name']} ranks {verdict}"
        told[f"difference in AUUC to {rival['name']}"] = f"{difference}: {words}"
    if left_out := found["table"]["left_out"]:
        named = ", ".join(f"{name} {count:,}" for name, count in left_out.items())
        told["rows of other arms, left out"] = named
    if dropped := found["features"]["dropped"]:
        told["columns without use"] = "; ".join(f"{name}: {why}" for name, why in dropped.items())
    return told
