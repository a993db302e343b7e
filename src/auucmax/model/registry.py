"""Registry of models by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from auucmax import baselines, estimators
from auucmax._errors import InputError
from auucmax.results import Kind, Outcome


def _made(kind: str, seed: int) -> Any:
    made = getattr(estimators, kind)()
    return made.set_params(random_state=seed) if hasattr(made, "random_state") else made


#: Models that can be fitted, saved and exported, by name; each takes a seed.
MODELS: dict[str, Callable[[int], Any]] = {
    name: partial(_made, own.estimator) for name, own in estimators.MODELS.items()
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
