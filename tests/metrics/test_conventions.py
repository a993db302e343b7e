"""Other libraries' numbers: against loops written from their definitions, and (``pytest -m gate``)
against the libraries themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.metrics import conventions
from auucmax.metrics.functions import auuc_score

Trial = tuple[np.ndarray, np.ndarray, np.ndarray]
LIBRARIES = ("scikit-uplift", "CausalML", "pylift")
TABLE = conventions([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
ORDER_DEPENDENT = {(c.library, c.name) for c in TABLE.itertuples() if c.order_dependent}


def values(y: Any, score: Any, treatment: Any, library: str | None = None) -> dict[str, float]:
    """Value by name; without a library, by (library, name)."""
    table = conventions(y, score, treatment=treatment)
    if library is None:
        return dict(zip(zip(table.library, table.name, strict=True), table.value, strict=True))
    table = table[table.library == library]
    return dict(zip(table.name, table.value, strict=True))


def make_trial(
    seed: int, *, n: int = 400, share: float = 0.5, rate: float = 0.3, levels: int | None = None
) -> Trial:
    """A randomised trial whose score says something; ``levels`` scores tie."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    treatment = (rng.uniform(size=n) < share).astype(int)
    y = (rng.uniform(size=n) < rate + 0.4 * treatment * x * (1 - rate)).astype(float)
    score = x + 0.3 * rng.normal(size=n)
    return y, score if levels is None else np.floor(levels * score), treatment


def one_arm_first(seed: int, arm: int) -> Trial:
    """The ten highest scores are all of one arm, where the ratios of the curves have no value."""
    y, score, treatment = make_trial(seed, n=120)
    score[np.flatnonzero(treatment == arm)[:10]] += 10
    return y, score, treatment


def reversed_effect(seed: int) -> Trial:
    y, score, treatment = make_trial(seed)
    return y, score, 1 - treatment


UNTIED = {
    "balanced": make_trial(0),
    "few treated": make_trial(1, share=0.15),
    "many treated": make_trial(2, share=0.85),
    "rare outcome": make_trial(3, n=2000, rate=0.01),
    "common outcome": make_trial(4, rate=0.8),
    "treated first": one_arm_first(5, 1),
    "control first": one_arm_first(6, 0),
    "effect below zero": reversed_effect(7),
    "six rows": (
        np.array([1.0, 1, 0, 0, 1, 0]),
        np.array([0.6, 0.5, 0.9, 0.1, 0.2, 0.3]),
        np.array([1, 0, 0, 1, 1, 0]),
    ),
}
TIED = {
    "twenty levels": make_trial(10, levels=20),
    "four levels": make_trial(11, levels=4, share=0.2),
    "two levels": make_trial(12, levels=1),
    "constant": (make_trial(13)[0], np.zeros(400), make_trial(13)[2]),
    "many rows": make_trial(14, n=5000, levels=6, rate=0.05),
    "effect below zero": (*make_trial(15, levels=5)[:2], 1 - make_trial(15, levels=5)[2]),
}
ALL_TRIALS = {f"untied: {k}": v for k, v in UNTIED.items()} | {
    f"tied: {k}": v for k, v in TIED.items()
}


def shuffled(trial: Trial, seed: int = 0) -> Trial:
    rows = np.random.default_rng(seed).permutation(len(trial[0]))
    return tuple(column[rows] for column in trial)  # type: ignore[return-value]


def close(expected: float) -> Any:
    # An area is a difference of areas of size up to n; below 1e-12 of that it is rounding.
    return pytest.approx(expected, rel=1e-10, abs=1e-12, nan_ok=True)


# --- slow twins, one loop each, from the definitions ----------------------------------------------


def prefixes(y: Any, score: Any, treatment: Any) -> list[tuple[int, int, float, float]]:
    """t(k), c(k), YT(k), YC(k) for k = 1..n, tied rows as given."""
    totals, result = [0, 0, 0.0, 0.0], []
    for row in sorted(range(len(y)), key=lambda i: -score[i]):
        arm = 0 if treatment[row] == 1 else 1
        totals[arm] += 1
        totals[2 + arm] += y[row]
        result.append(tuple(totals))
    return result  # type: ignore[return-value]


def trapezoid(points: list[tuple[float, float]]) -> float:
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def slow_gain(t: int, c: int, yt: float, yc: float) -> float:
    return ((yt / t if t else 0) - (yc / c if c else 0)) * (t + c)


def slow_qini(t: int, c: int, yt: float, yc: float) -> float:
    return yt - (yc * t / c if c else 0)


def slow_scikit_uplift(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    def above_random(score: Any, curve: Callable[..., float]) -> float:
        ranked = sorted(score, reverse=True)
        points = [(0.0, 0.0)]
        for k, totals in enumerate(prefixes(y, score, treatment), start=1):
            if k == len(ranked) or ranked[k] != ranked[k - 1]:
                points.append((float(k), curve(*totals)))
        return trapezoid(points) - trapezoid([points[0], points[-1]])

    pairs = list(zip(y, treatment, strict=True))
    first = pairs.count((1, 0)) > pairs.count((0, 1))
    best_uplift = [2 * (a == b) + (a if first else b) for a, b in pairs]
    best_qini = [a if b else -a for a, b in pairs]
    end = slow_qini(*prefixes(y, score, treatment)[-1])
    n = len(y)
    positive = above_random(score, slow_qini) / (
        trapezoid([(0, 0), (end, end), (n, end)]) - n * end / 2
    )
    return {
        "uplift_auc_score": above_random(score, slow_gain) / above_random(best_uplift, slow_gain),
        "qini_auc_score(negative_effect=True)": above_random(score, slow_qini)
        / above_random(best_qini, slow_qini),
        "qini_auc_score(negative_effect=False)": positive if end >= 0 else math.nan,
    }


def slow_causalml(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    lift: list[float | None] = [0.0]
    qini: list[float | None] = [0.0]
    for t, c, yt, yc in prefixes(y, score, treatment):
        lift.append(yt / t - yc / c if t and c else None)
        qini.append(slow_qini(t, c, yt, yc) if c else None)

    def ramp(curve: list[float | None]) -> list[float]:
        first, value = next((k, v) for k, v in enumerate(curve) if k and v is not None)
        return [value * k / first if v is None else v for k, v in enumerate(curve)]

    gain = [k * v for k, v in enumerate(ramp(lift))]
    rows = ramp(qini)
    auuc = sum(gain) / len(gain)
    area = sum(v - k / len(y) * rows[-1] for k, v in enumerate(rows)) / len(rows)
    return {
        "auuc_score(normalize=True)": auuc / abs(gain[-1]),
        "auuc_score(normalize=False)": auuc,
        "qini_score(normalize=True)": area / abs(rows[-1]),
        "qini_score(normalize=False)": area,
    }


def slow_pylift(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    success = [int(v > 0) for v in y]
    top = prefixes(success, score, treatment)
    nt, nc, st_, sc = top[-1]
    n, effect = nt + nc, st_ / nt - sc / nc
    curves: dict[str, Callable[..., float]] = {
        "qini": lambda t, c, a, b: a / nt - b / nc,
        "cgains": lambda t, c, a, b: slow_gain(t, c, a, b) / (t + c) * (t / nt + c / nc) / 2,
        "aqini": lambda t, c, a, b: slow_qini(t, c, a, b) / nt,
    }

    def best(slope: int) -> float:
        up, down = st_ / nt / slope, 1 - sc / nc / slope
        if up > down:
            up = down = (up + down) / 2
        return trapezoid([(0, 0), (up, slope * up), (down, slope * up), (1, effect)]) - effect / 2

    result = {"Q_max": best(2), "Q_practical_max": best(1)}
    for name, curve in curves.items():
        points = [(0.0, 0.0), *((k / n, curve(*row)) for k, row in enumerate(top, start=1))]
        result[f"Q_{name}"] = trapezoid(points) - effect / 2
        result[f"q1_{name}"] = result[f"Q_{name}"] / result["Q_max"]
        result[f"q2_{name}"] = result[f"Q_{name}"] / result["Q_practical_max"]
    return result


SLOW = {"scikit-uplift": slow_scikit_uplift, "CausalML": slow_causalml, "pylift": slow_pylift}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("trial", UNTIED.values(), ids=UNTIED)
def test_equals_the_loop_without_ties(trial: Trial, library: str) -> None:
    assert values(*trial, library) == close(SLOW[library](*trial))


@pytest.mark.parametrize("library", ["scikit-uplift", "pylift"])
@pytest.mark.parametrize("trial", TIED.values(), ids=TIED)
def test_equals_the_loop_with_ties(trial: Trial, library: str) -> None:
    assert values(*trial, library) == close(SLOW[library](*trial))


# --- relations between the numbers ----------------------------------------------------------------


@pytest.mark.parametrize("trial", ALL_TRIALS.values(), ids=ALL_TRIALS)
def test_the_papers_numbers(trial: Trial) -> None:
    y, score, treatment = trial
    got = values(y, score, treatment)
    effect = y[treatment == 1].mean() - y[treatment == 0].mean()
    joint = got["auucmax", "auuc_score(ranking='joint')"]
    assert joint == auuc_score(y, score, treatment=treatment)
    assert got["auucmax", "auuc_score(ranking='separate')"] == auuc_score(
        y, score, treatment=treatment, ranking="separate"
    )
    assert got["auucmax", "gain over random"] == close(joint - effect / 2)
    assert got["paper", "Definition 1"] == close(joint + effect / (2 * len(y)))


@pytest.mark.parametrize("trial", UNTIED.values(), ids=UNTIED)
def test_definition_1_is_the_mean_of_the_curve(trial: Trial) -> None:
    top = prefixes(*trial)
    nt, nc, *_ = top[-1]
    mean = sum(yt / nt - yc / nc for _, _, yt, yc in top) / len(top)
    assert values(*trial, "paper")["Definition 1"] == close(mean)


@pytest.mark.parametrize("trial", TIED.values(), ids=TIED)
def test_row_order_matters_where_we_say_so_and_nowhere_else(trial: Trial) -> None:
    one, other = values(*trial), values(*shuffled(trial))
    undefined = {name for name, value in one.items() if math.isnan(value)}
    moved = {name for name in one if abs(one[name] - other[name]) > 1e-9}
    assert moved == ORDER_DEPENDENT - undefined


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 1)), min_size=4, max_size=40
    )
)
@settings(deadline=None, max_examples=150)
def test_any_small_trial_equals_the_loops(rows: list[tuple[int, int, int]]) -> None:
    rows += [(0, 3, 0), (1, 3, 0), (0, 3, 1), (1, 3, 1)]
    y, score, treatment = (list(column) for column in zip(*rows, strict=True))
    got = values(y, score, treatment)
    for library in ("scikit-uplift", "pylift"):
        try:
            expected = SLOW[library](y, score, treatment)
        except ZeroDivisionError:
            assert any(math.isnan(v) for (lib, _), v in got.items() if lib == library)
            continue
        assert {name: got[library, name] for name in expected} == close(expected)


# --- where a number does not exist ----------------------------------------------------------------


def notes(*trial: Any) -> pd.Series:
    table = conventions(trial[0], trial[1], treatment=trial[2])
    return table[table.value.isna()].set_index(["library", "name"]).note


def test_scikit_uplift_needs_zeros_and_ones() -> None:
    y, score, treatment = UNTIED["balanced"]
    for outcome in (y * 3.5, y + np.arange(len(y)), np.ones(len(y))):
        missing = notes(outcome, score, treatment)
        assert set(missing.loc["scikit-uplift"].index) == set(slow_scikit_uplift(*TIED["constant"]))
        assert all("0 and 1" in note for note in missing.loc["scikit-uplift"])


def test_pylift_counts_positive_outcomes_and_has_no_place_for_negative_ones() -> None:
    y, score, treatment = UNTIED["balanced"]
    revenue = y * np.linspace(1, 9, len(y))
    assert values(revenue, score, treatment, "pylift") == values(y, score, treatment, "pylift")
    missing = notes(revenue - 1, score, treatment)
    assert len(missing.loc["pylift"]) == 11
    assert all("negative outcome" in note for note in missing.loc["pylift"])
    assert "CausalML" not in missing.index.get_level_values(0)


def test_a_zero_or_negative_effect_leaves_ratios_undefined() -> None:
    y, score, treatment = [1, 0, 1, 0], [4, 3, 2, 1], [1, 1, 0, 0]
    missing = notes(y, score, treatment)
    assert set(missing.index) == {
        ("scikit-uplift", "qini_auc_score(negative_effect=False)"),
        ("CausalML", "auuc_score(normalize=True)"),
        ("CausalML", "qini_score(normalize=True)"),
    }
    assert all("average effect is zero" in note for note in missing)
    missing = notes(*UNTIED["effect below zero"])
    assert [*missing.index] == [("scikit-uplift", "qini_auc_score(negative_effect=False)")]
    assert "negative" in missing.iloc[0]


# --- the table ------------------------------------------------------------------------------------


def test_every_number_is_there_once() -> None:
    y, score, treatment = UNTIED["balanced"]
    table = conventions(y, score, treatment=treatment)
    assert len(table) == 22
    assert not table.duplicated(["library", "name"]).any()
    assert np.isfinite(table.value).all()
    assert set(table[table.order_dependent].library) == {"CausalML", "pylift"}


def test_labels_and_frames() -> None:
    y, score, treatment = UNTIED["balanced"]
    labels = np.where(treatment == 1, "mail", "none")
    table = conventions(pd.Series(y), pd.Series(score), treatment=labels, control="none")
    pd.testing.assert_frame_equal(table, conventions(y, score, treatment=treatment))


# --- against the libraries ------------------------------------------------------------------------


def scikit_uplift(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    metrics = pytest.importorskip("sklift.metrics", reason="needs scikit-uplift")

    def positive() -> float:
        try:
            return metrics.qini_auc_score(y, score, treatment, negative_effect=False)
        except ValueError as error:  # Its curve runs backwards if the effect is negative.
            assert "neither increasing nor decreasing" in str(error)  # noqa: PT017
            return math.nan

    return {
        "uplift_auc_score": float(metrics.uplift_auc_score(y, score, treatment)),
        "qini_auc_score(negative_effect=True)": float(metrics.qini_auc_score(y, score, treatment)),
        "qini_auc_score(negative_effect=False)": float(positive()),
    }


def causalml(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    metrics = pytest.importorskip("causalml.metrics", reason="needs CausalML")
    frame = pd.DataFrame({"y": y, "w": treatment, "model": score})
    return {
        f"{name}(normalize={normalize})": float(
            getattr(metrics, name)(frame, normalize=normalize)["model"]
        )
        for name in ("auuc_score", "qini_score")
        for normalize in (True, False)
    }


def pylift(y: Any, score: Any, treatment: Any) -> dict[str, float]:
    evaluation = pytest.importorskip(
        "pylift.eval", reason="needs pylift, with scikit-optimize", exc_type=ImportError
    )
    result = evaluation.UpliftEval(treatment, y, score, n_bins=2)
    return {name: float(getattr(result, name)) for name in TABLE.name[TABLE.library == "pylift"]}


LIBRARY: dict[str, Callable[..., dict[str, float]]] = {
    "scikit-uplift": scikit_uplift,
    "CausalML": causalml,
    "pylift": pylift,
}


def gate(test: Any) -> Any:
    """Mark a test that calls the libraries, whose own warnings are none of our business."""
    for message in (
        # scikit-uplift calls a scikit-learn function that goes away in 1.10.
        "ignore:Function stable_cumsum is deprecated:FutureWarning",
        # CausalML imports shap, which calls deprecated functions of matplotlib.
        "ignore:The set_(bad|over|under) function will be deprecated:PendingDeprecationWarning",
    ):
        test = pytest.mark.filterwarnings(message)(test)
    return pytest.mark.gate(test)


@gate
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("trial", ALL_TRIALS.values(), ids=ALL_TRIALS)
def test_equals_the_library(trial: Trial, library: str) -> None:
    assert values(*trial, library) == close(LIBRARY[library](*trial))


@gate
@pytest.mark.parametrize("library", LIBRARIES)
def test_whether_the_library_depends_on_row_order(library: str) -> None:
    trial = TIED["twenty levels"]
    one, other = LIBRARY[library](*trial), LIBRARY[library](*shuffled(trial))
    moved = {(library, name) for name in one if abs(one[name] - other[name]) > 1e-9}
    assert moved == {name for name in ORDER_DEPENDENT if name[0] == library}


@gate
@pytest.mark.parametrize("library", ["CausalML", "pylift"])
def test_revenue_equals_the_library(library: str) -> None:
    y, score, treatment = UNTIED["few treated"]
    revenue = y * np.linspace(1, 90, len(y))
    assert values(revenue, score, treatment, library) == close(
        LIBRARY[library](revenue, score, treatment)
    )
