"""Models by their names: which there are, what they can learn from, their rivals, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from auucmax import baselines, estimators
from auucmax.data.outcomes import BINARY, usual_value
from auucmax.model.crossfit import (
    Recipe,
    TableRows,
)

#: Models that can be fitted, saved and exported, by name, with their defaults; each takes a seed.
MODELS: dict[str, Callable[[int], Any]] = {
    "auto": lambda seed: estimators.UpliftEnsemble(random_state=seed),
    "shrunk": lambda seed: estimators.ShrunkInteractions(random_state=seed),
    "boosted": lambda seed: estimators.BoostedEffect(random_state=seed),
    "auucmax": lambda seed: estimators.AUUCMax(random_state=seed),
    "tm": lambda seed: estimators.TwoModels(),
    "cvt": lambda seed: estimators.ClassTransformation(),
    "response": lambda seed: estimators.ResponseModel(),
}
#: Baselines of the paper, to compare models with.
BASELINES: dict[str, Callable[[int], Any]] = {
    "ddr": lambda seed: baselines.DependentDataRepresentation(),
    "sdr": lambda seed: baselines.SharedDataRepresentation(),
    "svm-dp": lambda seed: baselines.SVMDifferentialPrediction(),
    "mml": lambda seed: baselines.MinimaxLinear(random_state=seed),
    "mom": lambda seed: estimators.TransformedOutcome(),
    "pcg": lambda seed: baselines.UpliftLambdaMART("pcg", random_state=seed),
    "ndcg": lambda seed: baselines.UpliftLambdaMART("ndcg", random_state=seed),
    "tarnet": lambda seed: baselines.TARNet(random_state=seed),
    "cfrnet": lambda seed: baselines.CFRNet(random_state=seed),
    "ganite": lambda seed: baselines.GANITE(random_state=seed),
}
COMPARABLE = MODELS | BASELINES
#: What a model is compared with when it is fitted: the one that a user would ask for first, and for
#: "auto" all that it has to be better than.
RIVALS = {"auto": ("response", "tm", "auucmax")}


def able_models(kind: str) -> set[str]:
    """Names of the models that can learn from outcomes of a kind: all from 0/1."""
    return {name for name, make in COMPARABLE.items() if kind == BINARY or not make(0).needs_binary}


def able_with(rows: TableRows) -> set[str]:
    """The models that can learn from the outcomes of some rows."""
    return able_models(rows.columns.kind(rows.y))


def rivals_of(model: str, rows: TableRows) -> tuple[str, ...]:
    """What a model, which should be able to learn from the rows, is compared with."""
    able = able_with(rows)
    check_able(model, rows, able & set(MODELS), "model")
    return tuple(name for name in RIVALS.get(model, ("tm",)) if name in able - {model})


def check_able(name: str, rows: TableRows, able: set[str], what: str) -> None:
    """Raise a ValueError if a model is not among those that can learn from the outcomes."""
    if name in able:
        return
    outcome = f"the outcome {rows.columns.outcome!r} ({rows.columns.kind(rows.y)})"
    raise ValueError(
        f"{what} should be one of {', '.join(map(repr, sorted(able)))} for {outcome}, got "
        f"{name!r}, which learns from 0/1 only. Name one of these."
    )


def makers(names: Iterable[str], recipe: Recipe) -> dict[str, Callable[[], Any]]:
    """What makes a new estimator of each name."""
    return {name: partial(make_model, name, recipe) for name in names}


def make_model(name: str, recipe: Recipe) -> Any:
    """A new estimator of this name, with the seed of a recipe."""
    return COMPARABLE[name](recipe.seed)


def learnt_of_outcome(estimator: Any, rows: TableRows) -> str:
    """What of the outcome the model learns, in words."""
    name, kind = rows.columns.outcome, rows.columns.kind(rows.y)
    usual = usual_value(rows.columns.in_table(rows.y))
    first = getattr(estimator, "estimators_", [estimator])[0]
    learnt = getattr(first, "learnt_", None)
    if kind == BINARY:
        return f"{name} is 0/1"
    if learnt == "whether" and usual is not None:
        sign = -1 if rows.columns.lower_is_better else 1
        treated, control = (sign * amount for amount in first.amounts_.tolist())
        much = f"{treated:.4g}"
        if treated != control:
            much = f"{treated:.4g} if treated, {control:.4g} if not"
        return (
            f"{name} is {kind}, mostly {usual + 0.0:g}: learnt is whether it is not "
            f"{usual + 0.0:g}, times the mean of what it is then, {much} (the most extreme 1% "
            f"clipped)"
        )
    if learnt == "number":
        return f"{name} is {kind}, learnt as a number (the lowest and highest 1% clipped)"
    return f"{name} is {kind}, learnt as a number"


def tree_rows(estimator: Any) -> int | None:
    """How many rows trees learnt from, if there are trees."""
    members = getattr(estimator, "estimators_", [estimator])
    return next((one.n_rows_ for one in members if hasattr(one, "n_rows_")), None)
