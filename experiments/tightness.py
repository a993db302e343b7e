"""How narrow the certificates are on real trials: half of the rows held out, delta = .05.

Splits are stratified by treatment alone: class counts must be left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax import AUUCMax, Trial, TwoModels, auuc_score
from auucmax.certificates import certify
from experiments import page
from experiments.coverage import betting_constants
from experiments.harness import Line, Task
from experiments.models import describe, random_auuc, timed_line
from experiments.rival_bounds.held_out import HELD_OUT_BOUNDS
from experiments.searched import MeanLogistic
from experiments.trials import load_split

NAME = "tightness"
DELTA = 0.05
TEST_SIZE = 0.5
SPLITS = {"Hillstrom women": 100, "neighbours": 20}
DEFAULT = "betting"
ADJUSTED = ", adjusted"
METHODS = (
    DEFAULT, DEFAULT + ADJUSTED, "asymptotic", "asymptotic" + ADJUSTED, "mcdiarmid-conditional",
    "dkw-bernstein", "mcdiarmid",
)  # fmt: skip
RIVALS = METHODS[4:]  #: that ``certify`` does not offer
MODELS: dict[str, Callable[[int], Any]] = {
    "TM": lambda seed: TwoModels(MeanLogistic()),
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
}
COLUMNS = ("gain_gap", "gain_lower_bound", "gap", "lower_bound")


def tasks(splits: int | None = None) -> list[Task]:
    return [
        Task(NAME, trial, model, seed)
        for trial, number in SPLITS.items()
        for seed in range(min(splits or number, number))
        for model in MODELS
    ]


def parameters(task: Task) -> dict[str, Any]:
    return describe(MODELS[task.model](task.split)) | {
        "methods": METHODS,
        "delta": DELTA,
        "betting": betting_constants(),
    }


def run(task: Task) -> Line:
    return timed_line(task, parameters(task), lambda: certificates(task))


def certificates(task: Task) -> Line:
    """The columns by every method, of a model that was trained on the other half."""
    train, test = load_split(task.trial, task.split, TEST_SIZE)
    model = MODELS[task.model](task.split).fit(train.X, train.y, treatment=train.treatment)
    predicted, limits = predicted_outcome(train, test)
    found = {}
    for method in METHODS:
        if method in RIVALS:
            found[method] = by_rival(method, model, test)
            continue
        options: dict[str, Any] = {"method": method.removesuffix(ADJUSTED), "delta": DELTA}
        if method.endswith(ADJUSTED):
            options["outcome_model"] = predicted
            if method.startswith(DEFAULT):
                options["outcome_model_range"] = limits
        certificate = certify(model, test.X, test.y, treatment=test.treatment, **options)
        found[method] = [getattr(certificate, name) for name in COLUMNS]
    return {"rows": test.n_rows, "certificates": found}


def by_rival(method: str, model: Any, test: Trial) -> list[float]:
    """The columns by a bound that ``certify`` does not offer."""
    score, rows = model.predict(test.X), {"treatment": test.treatment}
    (bound,) = (one for one in HELD_OUT_BOUNDS if one.name == method)
    auuc = auuc_score(test.y, score, ranking=bound.ranking, **rows)
    gain = auuc - random_auuc(test)
    of_gain, of_auuc = (
        bound.function(test.y, score, target=target, delta=DELTA, **rows).lower
        for target in ("gain", "auuc")
    )
    return [gain - of_gain, of_gain, auuc - of_auuc, of_auuc]


def predicted_outcome(train: Trial, test: Trial) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """(1 - e) m_1(x) + e m_0(x) for the test rows, which takes most noise off; and its range.

    m_1 and m_0 are logistic models of the arms, e the treated share, all of the training half; so
    is the range, that of the predictions for training rows.
    """
    rows, treated = train.X.to_numpy(), train.treatment == 1
    m_1, m_0 = (MeanLogistic().fit(rows[arm], train.y[arm]) for arm in (treated, ~treated))
    share = float(np.mean(treated))

    def predict(trial: Trial) -> NDArray[np.float64]:
        X = trial.X.to_numpy()
        return np.asarray(
            (1 - share) * m_1.predict_proba(X)[:, 1] + share * m_0.predict_proba(X)[:, 1]
        )

    own = predict(train)
    return predict(test), (float(own.min()), float(own.max()))


def render(lines: list[Line]) -> str:
    parts = [
        f"Random halves, stratified by treatment alone, delta = {DELTA:g}. TM is two logistic "
        f'models. "{DEFAULT}" is what `certify` does by default; "adjusted" takes a prediction of '
        f"the outcome, made by two logistic models on the training half, off the outcome, clipped "
        f"to the range that it had there. Means over splits, the largest gap in brackets. "
        f"mcdiarmid-conditional is about AUUC at the response rates of the held-out rows, "
        f"asymptotic is no guarantee. The splits of a trial share its rows. The social pressure "
        f"trial (neighbours) was randomised by household, and the file has no household number: "
        f"its certificates are nominal.\n",
    ]
    for trial, model in product(SPLITS, MODELS):
        own = _lines_of(lines, trial, model)
        if own:
            rows = float(np.mean([line["rows"] for line in own]))
            parts += [
                f"## {trial}, {model}: {len(own)} splits, {rows:,.0f} held-out rows\n", _table(own)
            ]  # fmt: skip
    title = f"{NAME}: how narrow the certificates are on real trials"
    return page.written(title, lines, *parts, work="fitting and certifying")


def summary(lines: list[Line]) -> str:
    trial, model = next(iter(SPLITS)), next(iter(MODELS))
    own = _lines_of(lines, trial, model)
    if not own:
        return ""
    gain, gap = (_column(own, DEFAULT, name) for name in ("gain_lower_bound", "gain_gap"))
    return (
        f"How narrow they are ({page.link(NAME)}): on half of {trial} a gain of "
        f"{page.auuc(float(gain.mean()))} over random is certified for {model} on average, "
        f"{page.auuc(float(gap.mean()))} below the estimate; it is above 0 on "
        f"{int((gain > 0).sum())} of {len(gain)} splits.\n"
    )


def _lines_of(lines: Sequence[Line], trial: str, model: str) -> list[Line]:
    own = [line for line in lines if (line["trial"], line["model"]) == (trial, model)]
    return sorted(own, key=lambda line: line["split"])


def _column(lines: Sequence[Line], method: str, name: str) -> NDArray[np.float64]:
    place = COLUMNS.index(name)
    return np.array([line["certificates"][method][place] for line in lines])


def _table(lines: Sequence[Line]) -> str:
    header = [
        "certificate", "gain: gap", "to the normal limit", "certified gain", "splits with gain > 0",
        "AUUC: gap", "certified AUUC",
    ]  # fmt: skip
    rows = []
    normal = _column(lines, "asymptotic", "gain_gap")
    for method in METHODS:
        gain_gap, gain, gap, lower = (_column(lines, method, name) for name in COLUMNS)
        rows.append(
            [
                method,
                f"{gain_gap.mean():.5f} ({gain_gap.max():.5f})",
                f"{np.mean(gain_gap / normal):.2f}",
                page.signed(float(gain.mean())),
                f"{int((gain > 0).sum())} of {len(gain)}",
                f"{gap.mean():.5f} ({gap.max():.5f})",
                page.auuc(float(lower.mean())),
            ]
        )
    return page.table(header, rows)
