"""``auucmax compare``: which model ranks unseen people best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import names_in
from auucmax.cli.output import between, print_json, print_result, unit_for
from auucmax.cli.ranking import against as told_against
from auucmax.cli.ranking import effect_of, to_try

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.cli.trials import Source
    from auucmax.comparison import Comparison
    from auucmax.model import ColumnNames, TrialModel


@tells_failures
def compare(
    data: options.Data,
    treatment: options.ModelKnowsTreatment = None,
    outcome: options.ModelKnowsOutcome = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            help="Names as for fit --model, with commas; auucmax,tm,cvt by default, and "
            "auto,tm,response for outcomes that are not 0/1.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="A model file, DATA being the file of its fit: the others "
                     "are fitted on its folds, and all are judged on the same rows."),
    ] = None,
    splits: Annotated[
        int | None,
        typer.Option("--splits", help="Random splits, without --against; 10 by default."),
    ] = None,
    treated: options.Treated = None,
    control: options.Control = None,
    id: options.Id = None,
    groups: options.Groups = None,
    propensity: options.Propensity = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    after: options.After = None,
    categorical: options.Categorical = None,
    numeric: options.Numeric = None,
    lower_is_better: options.LowerIsBetter = False,
    drop_missing_outcomes: options.DropMissing = False,
    seed: options.Seed = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Processes, without --against; 1 by default, -1: all cores."),
    ] = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    memory: options.Memory = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:  # fmt: skip
    """Compare models on the same rows: by many random splits, or against a fitted model.

    A MODEL decides on columns, arms, folds and seed. --new-levels is for it; in random splits,
    texts that training rows do not have count to no level.
    """
    from auucmax._validation import check_choice
    from auucmax.cli.trials import Source, column_options, enough_rows, read_rows
    from auucmax.model.by_name import COMPARABLE

    names = list(dict.fromkeys(names_in(models) or ()))
    if models is not None and not names:
        raise ValueError("--models should name at least one model, got none. Try tm,cvt.")
    for name in names:
        check_choice(name, "--models", COMPARABLE)
    columns: dict[str, Any] = {
        "treatment": treatment, "outcome": outcome, "treated": treated, "control": control,
        "id": id, "groups": groups, "propensity": propensity,
        "features": features, "ignore": ignore, "categorical": categorical, "numeric": numeric,
        "lower_is_better": lower_is_better or None,
        "drop_missing_outcomes": drop_missing_outcomes or None,
    }  # fmt: skip
    source = Source(data, query, memory, decimal, encoding)
    if against is not None:
        _check_unused(
            "without --against", splits=splits, jobs=jobs, seed=seed or None, after=after or None
        )
        _against(against, source, names, new_levels, columns, as_json)
        return
    _check_unused("with --against", new_levels=None if new_levels == "error" else new_levels)
    if treatment is None or outcome is None:
        raise ValueError(
            "compare should know the columns: got no --treatment or no --outcome. Name them, or "
            "pass --against MODEL."
        )
    table = enough_rows(read_rows(source))
    result, names, kind = _by_splits(
        table, column_options(table, **columns, after=after), names, seed,
        splits=10 if splits is None else splits, n_jobs=1 if jobs is None else jobs,
    )  # fmt: skip
    _tell(result, names, kind, as_json)


def _by_splits(
    table: pd.DataFrame, given: dict[str, Any], names: list[str], seed: int, **how: Any
) -> tuple[Comparison, list[str], str]:
    """Models on random splits, which of them, and the kind of the outcome."""
    from auucmax import compare as compare_models
    from auucmax._validation import listed
    from auucmax.cli.trials import rows_of_arms, several_arms
    from auucmax.data import FailedCheckError
    from auucmax.model.rows import check_trial_rows

    if labels := several_arms(table, given):
        raise ValueError(
            f"--treated should name one of the arms {listed(labels)} to compare models on random "
            f"splits, got none. Or pass --against MODEL, which has them all."
        )
    rows, named = rows_of_arms(table, refuse=True, **given)
    if (report := check_trial_rows(rows, named)).stops:
        raise FailedCheckError(" ".join([report.verdict, *report.advice, _NOT_COMPARED]), report)
    names = _able(names, named.kind(rows.y), named.outcome)
    models = {name: _pipeline(name, seed, named) for name in names}
    found = compare_models(models, rows.trial(named), random_state=seed, **how)
    return found, names, named.kind(rows.y)


_NOT_COMPARED = "Models are not compared on such rows: the AUUC of each means little."


def _tell(result: Comparison, names: list[str], kind: str, as_json: bool) -> None:
    if result.frame["auuc"].isna().all():
        raise ValueError(
            f"a model at least should be fitted, got none: {result.frame['error'].iloc[0]}"
        )
    if as_json:
        print_json(
            {"summary": result.summary().reset_index().to_dict("records"),
             "splits": result.frame.to_dict("records"),
             "notes": [_price(len(names))] if len(names) > 1 else []}
        )  # fmt: skip
        return
    unit, notes = unit_for({"outcome": kind}), list[str]()
    if "scale" in unit:
        columns = ["auuc", "standard_error", "gain", "gain_standard_error"]
        scaled = result.frame[columns] * unit["scale"]
        result = replace(result, frame=result.frame.assign(**scaled))
        notes = [f"AUUC, sd and differences are{unit['unit']}."]
    notes += str(result).split("\n")
    if len(names) > 1:
        # A model that failed on every split has no difference.
        differences = result.differences(names[0]).to_string(
            float_format=lambda x: f"{x:.4g}", na_rep="-"
        )
        notes += ["", f"Differences to {names[0]}:", *differences.split("\n")]
    verdict, lines = _by_mean(result, unit)
    failed = result.summary()["n_failed"]
    cautions = [
        f"{name} failed on {n} of {len(result.seeds)} splits"
        + (": its AUUC is of the others." if n < len(result.seeds) else ".")
        for name, n in failed[failed > 0].items()
    ]
    cautions += [_price(len(names))] if len(names) > 1 else []
    print_result(verdict, lines, cautions=cautions, details={}, notes=notes)


def _by_mean(result: Comparison, unit: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Which model has the highest mean AUUC, and whether it is told from the others."""
    table, gaps = result.summary(), result.differences()
    best, *others = map(str, table.index[table["mean_auuc"].notna()])
    per, digits = unit.get("unit", ""), unit["digits"]
    lines = {best: f"AUUC {table['mean_auuc'].iloc[0]:.{digits}f}{per}"}
    apart = []
    for name in others:
        gap = gaps.loc[name]
        lines[name] = f"AUUC {table.loc[name, 'mean_auuc']:.{digits}f}{per}"
        if gap["lower"] == gap["lower"]:  # one split has no interval
            lines[name] += (
                f", {gap['difference']:+.{digits}f} ({gap['lower']:+.{digits}f} to "
                f"{gap['upper']:+.{digits}f}) against {best}"
            )
            apart += [name] if gap["upper"] < 0 else []
    told = f"{best} has the highest mean AUUC over {len(result.seeds)} splits"
    if not others:
        return f"{told}: no other was fitted.", lines
    alike = ", ".join(name for name in others if name not in apart)
    return f"{told}, and cannot be told from {alike}." if alike else f"{told}.", lines


def _price(n_models: int) -> str:
    return (
        f"If you keep the best of these {n_models} models, fit it by `auucmax fit --candidates "
        f"{n_models}`: its certificate then allows for the choice, which was made on these rows."
    )


def _able(names: list[str], kind: str, outcome: str) -> list[str]:
    """The models to compare: those that were named, if they can learn from the outcome."""
    from auucmax.data.outcomes import BINARY
    from auucmax.model.by_name import able_models

    if not names:
        return ["auucmax", "tm", "cvt"] if kind == BINARY else ["auto", "tm", "response"]
    able = able_models(kind)
    if wrong := [name for name in names if name not in able]:
        raise ValueError(
            f"--models should be among {', '.join(sorted(able))} for the outcome {outcome!r} "
            f"({kind}), got {', '.join(wrong)}, which learn from 0/1 only. Leave them out."
        )
    return names


def _check_unused(when: str, **options: Any) -> None:
    for name, given in options.items():
        if given is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} should come {when}, got {option} {given}. Leave it out.")


def _pipeline(name: str, seed: int, columns: ColumnNames) -> Any:
    """Encoding and model together, so that nothing is learnt from test rows."""
    from sklearn.pipeline import make_pipeline

    from auucmax.encoding import TableEncoder
    from auucmax.model.by_name import COMPARABLE

    encoder = TableEncoder(
        new_levels="other", categorical=columns.categorical, numeric=columns.numeric
    )
    return make_pipeline(encoder, COMPARABLE[name](seed))


def _against(
    path: Path,
    source: Source,
    names: list[str],
    new_levels: str,
    columns: dict[str, Any],
    as_json: bool,
) -> None:
    from auucmax.cli.trials import check_decided, read_model, read_rows
    from auucmax.data import FailedCheckError
    from auucmax.model import TrialModel

    fitted = read_model(path, new_levels)
    check_decided(fitted.columns, **columns)
    if fitted.warning is not None:
        raise FailedCheckError(f"{fitted.warning} {_NOT_COMPARED}")
    table = read_rows(source)
    if isinstance(fitted, TrialModel):
        told = _rivals(fitted, str(path), table, names, as_json)
    else:  # arm by arm, on the folds that they share
        told = {
            label: _rivals(one, f"{path}, {label}", table, names, as_json)
            for label, one in fitted.models.items()
        }
    if as_json:
        print_json(told if isinstance(fitted, TrialModel) else {"arms": told})


def _rivals(
    model: TrialModel, name: str, table: Any, names: list[str], as_json: bool
) -> dict[str, Any]:
    """A model against others on the rows of its fit: told, unless as JSON, which is returned."""
    from auucmax.model import with_rivals

    names = _able(names, model.evidence["rows"]["outcome"], model.columns.outcome)
    found = with_rivals(model, table, names)
    price = [_price(1 + len(found["rivals"]))] if found["rivals"] else []
    if as_json:
        models = {name: {"auuc": found["auuc"]}} | {
            rival["name"]: {name: rival[name] for name in ("auuc", "difference", "verdict")}
            for rival in found["rivals"]
        }
        return {"models": models, "rows": found["rows"], "notes": [*found["notes"], *price]}
    unit = unit_for(found["rows"])
    told = {name: f"AUUC {between(found['auuc'], 'estimate', 'lower', 'upper', **unit)}"}
    for rival in found["rivals"]:
        difference = between(rival["difference"], "estimate", "lower", "upper", **unit, sign=True)
        own = between(rival["auuc"], "estimate", "lower", "upper", **unit)
        p_value = rival["difference"]["p_value"]
        chance = "" if p_value is None else f", p {p_value:.2g}"
        told[rival["name"]] = (
            f"AUUC {own}, {rival['verdict']}: the model file has {difference} more{chance}"
        )
    print_result(
        f"{name} is {told_against(found['rivals'])}, on {found['rows']['n_rows']:,} rows.",
        {"effect of treating everybody": effect_of(found.facts, model.columns.gain)} | told,
        cautions=[*to_try({**found.facts, "certificate": None}), *price],
        notes=[
            found["notes"][0], "Differences are the model file minus the other, on the same rows."
        ],
    )  # fmt: skip
    return {}
