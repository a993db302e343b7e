"""Registry of models by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from auucmax import baselines, estimators
from auucmax._errors import InputError
from auucmax.data.pair import Pair
from auucmax.encoding.kinds import usual_value
from auucmax.results import Kind, Outcome

#: Models that can be fitted, saved and exported, by name; each takes a seed.
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
#: What a model is compared with when it is fitted; others are compared with "tm".
RIVALS = {"auto": ("response", "tm", "auucmax")}


def able_models(kind: str) -> list[str]:
    """Names of models that support a kind of outcome."""
    binary = kind == Kind.BINARY
    return [name for name, make in COMPARABLE.items() if binary or not make(0).needs_binary]


def check_able(name: str, outcome: Outcome, parameter: str, names: Iterable[str]) -> None:
    """Raise an InputError for models that do not support the outcomes."""
    able = [known for known in able_models(outcome.kind) if known in names]
    if name not in able:
        raise InputError(
            parameter,
            f"one of {', '.join(map(repr, able))} for the outcome {outcome.name!r} "
            f"({outcome.kind.value})",
            repr(name), "Name one of these; some models need 0/1 outcomes.",
        )  # fmt: skip


def describe_target(estimator: Any, pair: Pair) -> str:
    """Description of a model's target."""
    outcome = pair.trial.roles.outcome
    if outcome.kind == Kind.BINARY:
        return f"{outcome.name} is 0/1"
    usual = usual_value(pair.trial.y[pair.index])
    first = getattr(estimator, "estimators_", [estimator])[0]
    target = getattr(first, "modelled_", None)
    if target == "whether" and usual is not None:
        sign = -1 if outcome.lower_is_better else 1
        treated, control = (sign * amount for amount in first.amounts_.tolist())
        much = f"{treated:.4g}"
        if treated != control:
            much = f"{treated:.4g} if treated, {control:.4g} if not"
        return (
            f"{outcome.name} is {outcome.kind.value}, mostly {usual + 0.0:g}: the model predicts "
            f"whether it is not {usual + 0.0:g}, times the mean of what it is then, {much} (the "
            f"most extreme 1% clipped)"
        )
    clipped = " (the lowest and highest 1% clipped)" if target == "number" else ""
    return f"{outcome.name} is {outcome.kind.value}, predicted as a number{clipped}"
