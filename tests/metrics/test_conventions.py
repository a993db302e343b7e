"""Other libraries' numbers: against loops written from their definitions, golden values that the
libraries produced, and (``pytest -m gate``) the libraries themselves.

``python tests/metrics/test_conventions.py`` prints the golden values again, where scikit-uplift,
CausalML and pylift can be imported.
"""

from __future__ import annotations

import itertools
import math
import warnings
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


def test_causalml_with_ties_is_one_of_the_possible_orders() -> None:
    # Which one is up to pandas' unstable sort, so we list them all.
    y, score, treatment = [1, 0, 1, 1, 1, 0], [2, 1, 1, 1, 0, 0], [1, 0, 1, 0, 1, 0]
    possible = []
    for middle in itertools.permutations([1, 2, 3]):
        for last in itertools.permutations([4, 5]):
            rows = [0, *middle, *last]
            broken = slow_causalml(
                [y[i] for i in rows], [-k for k in range(6)], [treatment[i] for i in rows]
            )
            possible.append(broken["auuc_score(normalize=False)"])
    ours = values(y, score, treatment, "CausalML")["auuc_score(normalize=False)"]
    assert len(set(np.round(possible, 9))) > 3
    assert any(ours == close(value) for value in possible)


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


@pytest.mark.parametrize("trial", UNTIED.values(), ids=UNTIED)
def test_pylift_qini_is_the_gain_over_random(trial: Trial) -> None:
    got = values(*trial)
    assert got["pylift", "Q_qini"] == close(got["auucmax", "gain over random"])


def test_pylift_practical_max_is_the_largest_separate_gain() -> None:
    y, _, treatment = make_trial(20)
    best = np.where(treatment == 1, y, -y)
    got = values(y, best, treatment)
    effect = y[treatment == 1].mean() - y[treatment == 0].mean()
    assert got["pylift", "Q_practical_max"] == close(
        got["auucmax", "auuc_score(ranking='separate')"] - effect / 2
    )


def test_the_perfect_ranking_is_one_and_a_constant_is_zero() -> None:
    y, _, treatment = make_trial(21)
    got = values(y, np.where(treatment == 1, y, -y), treatment, "scikit-uplift")
    assert got["qini_auc_score(negative_effect=True)"] == close(1.0)
    constant = values(y, np.ones(len(y)), treatment)
    assert constant["auucmax", "gain over random"] == close(0.0)
    for name in got:
        assert constant["scikit-uplift", name] == close(0.0)


def test_swapping_the_arms_flips_the_sign_of_the_areas() -> None:
    y, score, treatment = UNTIED["balanced"]
    one, other = values(y, score, treatment), values(y, score, 1 - treatment)
    names = [c for c in one if c[0] in ("auucmax", "paper")]
    names += [("pylift", "Q_qini"), ("pylift", "Q_cgains"), ("pylift", "q1_qini")]
    names += [("CausalML", "auuc_score(normalize=False)")]
    for name in names:
        assert one[name] == close(-other[name])
        assert abs(one[name]) > 1e-4


@pytest.mark.parametrize("trial", ALL_TRIALS.values(), ids=ALL_TRIALS)
def test_only_the_order_of_the_scores_matters(trial: Trial) -> None:
    y, score, treatment = trial
    one, other = values(y, score, treatment), values(y, np.exp(score / 5), treatment)
    if len(np.unique(score)) < len(score):
        # How an unstable sort places tied rows may depend on the numbers themselves.
        one, other = ({k: v for k, v in d.items() if k[0] != "CausalML"} for d in (one, other))
    assert other == close(one)


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


def test_revenue_has_a_value_in_causalml_and_in_ours() -> None:
    y, score, treatment = UNTIED["treated first"]
    revenue = y * np.linspace(-2, 9, len(y))
    assert values(revenue, score, treatment, "CausalML") == close(
        slow_causalml(revenue, score, treatment)
    )
    assert np.isfinite(list(values(revenue, score, treatment, "auucmax").values())).all()


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


def test_no_success_at_all_leaves_shares_undefined() -> None:
    missing = notes([0, 0, 0, 0], [4, 3, 2, 1], [1, 0, 1, 0])
    assert all("largest possible Q" in note for note in missing.loc["pylift"])
    assert {name[:2] for name in missing.loc["pylift"].index} == {"q1", "q2"}


# --- the table ------------------------------------------------------------------------------------


def test_the_table_explains_every_number() -> None:
    y, score, treatment = UNTIED["balanced"]
    table = conventions(y, score, treatment=treatment)
    assert [*table.columns] == ["name", "library", "value", "formula", "order_dependent", "note"]
    assert len(table) == 22
    assert not table.duplicated(["library", "name"]).any()
    assert np.isfinite(table.value).all()
    assert table.order_dependent.dtype == bool
    for text in (table.formula, table.note):
        assert (text.str.len() > 10).all()
        assert not text.str.contains("\n").any()
        assert not text.str.startswith(" ").any()
    assert set(table[table.order_dependent].library) == {"CausalML", "pylift"}


def test_labels_frames_and_bad_input() -> None:
    y, score, treatment = UNTIED["balanced"]
    labels = np.where(treatment == 1, "mail", "none")
    table = conventions(pd.Series(y), pd.Series(score), treatment=labels, control="none")
    pd.testing.assert_frame_equal(table, conventions(y, score, treatment=treatment))
    with pytest.raises(ValueError, match="as many rows as y"):
        conventions(y, score[:-1], treatment=treatment)
    with pytest.raises(ValueError, match="control="):
        conventions(y, score, treatment=labels)
    with pytest.raises(TypeError):
        conventions(y, score, treatment)  # type: ignore[misc]


# --- the libraries' own published examples, and golden values that they produced ------------------

# From scikit-uplift's tests of its metrics: outcome, uplift, treatment, uplift AUC, Qini AUC.
SCIKIT_UPLIFT_EXAMPLES = [
    ([0, 1], [0.1, 0.3], [1, 0], 0.0, 1.0),
    ([1, 0], [0.1, 0.3], [0, 1], 1.0, 1.0),
]
# Its tests also score a decision tree that gives three validation rows the same uplift.
SCIKIT_UPLIFT_TREE = ([0, 1, 0], [0.0, 0.0, 0.0], [0, 1, 1])

# CausalML issue 519: five rows an arm, scored alike, so every score ties once.
CAUSALML_ISSUE = ([0, 0, 0, 0, 1, 0, 0, 1, 1, 1], [0, 0.1, 0.2, 0.3, 0.4] * 2, [0] * 5 + [1] * 5)

# pylift's example with areas computed by hand.
PYLIFT_EXAMPLE = ([1, 0, 0, 1], [1, 0.5, 0.25, 0], [1, 0, 1, 0])
PYLIFT_BY_HAND = {"Q_cgains": 0.28125, "Q_aqini": 0.375, "Q_qini": 0.375}

GOLDEN_TRIAL = (
    [1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0],
    [0.9, 0.8, 0.7, 0.65, 0.6, 0.5, 0.45, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05],
    [1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1],
)
# The same rows from the bottom up, with scores rounded down to 0, 1/4, 1/2 or 3/4.
GOLDEN_TIED_TRIAL = (
    GOLDEN_TRIAL[0][::-1],
    [math.floor(4 * s) / 4 for s in GOLDEN_TRIAL[1]][::-1],
    GOLDEN_TRIAL[2][::-1],
)
GOLDEN: dict[str, dict[str, float]] = {
    "scikit-uplift": {
        "uplift_auc_score": 0.11387362637362632,
        "qini_auc_score(negative_effect=True)": 0.13009259259259254,
        "qini_auc_score(negative_effect=False)": 0.5546052631578945,
    },
    "CausalML": {
        "auuc_score(normalize=True)": 0.5882312925170067,
        "auuc_score(normalize=False)": 1.3725396825396823,
        "qini_score(normalize=True)": 0.08416666666666668,
        "qini_score(normalize=False)": 0.11222222222222213,
    },
    "pylift": {
        "Q_qini": 0.09226190476190477,
        "q1_qini": 0.28267477203647423,
        "q2_qini": 0.3907563025210084,
        "Q_cgains": 0.028277352607709708,
        "q1_cgains": 0.08663699522362124,
        "q2_cgains": 0.11976290516206463,
        "Q_aqini": 0.04181547619047618,
        "q1_aqini": 0.12811550151975684,
        "q2_aqini": 0.1771008403361344,
        "Q_max": 0.32638888888888884,
        "Q_practical_max": 0.23611111111111113,
    },
}
GOLDEN_TIED: dict[str, dict[str, float]] = {
    "scikit-uplift": {
        "uplift_auc_score": 0.1538461538461538,
        "qini_auc_score(negative_effect=True)": 0.17592592592592593,
        "qini_auc_score(negative_effect=False)": 0.75,
    },
    "pylift": {
        "Q_qini": 0.08035714285714288,
        "q1_qini": 0.24620060790273565,
        "q2_qini": 0.3403361344537816,
        "Q_cgains": 0.04789540816326529,
        "q1_cgains": 0.14674337820234473,
        "q2_cgains": 0.20285114045618238,
        "Q_aqini": 0.06875,
        "q1_aqini": 0.21063829787234048,
        "q2_aqini": 0.2911764705882353,
        "Q_max": 0.32638888888888884,
        "Q_practical_max": 0.23611111111111113,
    },
}


@pytest.mark.parametrize("example", SCIKIT_UPLIFT_EXAMPLES)
def test_scikit_uplift_published_examples(example: Any) -> None:
    *trial, uplift, qini = example
    got = values(*trial, "scikit-uplift")
    assert got["uplift_auc_score"] == close(uplift)
    assert got["qini_auc_score(negative_effect=True)"] == close(qini)


def test_pylift_published_example() -> None:
    got = values(*PYLIFT_EXAMPLE, "pylift")
    assert {name: got[name] for name in PYLIFT_BY_HAND} == close(PYLIFT_BY_HAND)


@pytest.mark.parametrize("library", LIBRARIES)
def test_golden_values(library: str) -> None:
    assert values(*GOLDEN_TRIAL, library) == close(GOLDEN[library])


@pytest.mark.parametrize("library", ["scikit-uplift", "pylift"])
def test_golden_values_with_ties(library: str) -> None:
    assert values(*GOLDEN_TIED_TRIAL, library) == close(GOLDEN_TIED[library])


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
def test_golden_values_come_from_the_library(library: str) -> None:
    assert LIBRARY[library](*GOLDEN_TRIAL) == close(GOLDEN[library])
    if library in GOLDEN_TIED:
        assert LIBRARY[library](*GOLDEN_TIED_TRIAL) == close(GOLDEN_TIED[library])


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


@gate
def test_scikit_uplift_refuses_what_we_call_undefined() -> None:
    metrics = pytest.importorskip("sklift.metrics", reason="needs scikit-uplift")
    y, score, treatment = UNTIED["balanced"]
    for outcome in (y * 2, np.ones(len(y))):
        for metric in (metrics.uplift_auc_score, metrics.qini_auc_score):
            with pytest.raises(ValueError, match="not binary"):
                metric(outcome, score, treatment)


@gate
def test_scikit_uplift_examples_from_its_own_pages() -> None:
    models = pytest.importorskip("sklift.models", reason="needs scikit-uplift")
    from sklearn.tree import DecisionTreeClassifier

    for *trial, uplift, qini in SCIKIT_UPLIFT_EXAMPLES:
        theirs = scikit_uplift(*trial)
        assert theirs["uplift_auc_score"] == close(uplift)
        assert theirs["qini_auc_score(negative_effect=True)"] == close(qini)
    assert values(*SCIKIT_UPLIFT_TREE, "scikit-uplift") == close(scikit_uplift(*SCIKIT_UPLIFT_TREE))

    # The quick start: an S-learner over trees, whose scores tie in large blocks.
    rng = np.random.default_rng(30)
    x = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "c"])
    treatment = pd.Series(rng.integers(0, 2, 3000))
    y = pd.Series((rng.normal(size=3000) + x.a * treatment > 0.5).astype(int))
    learner = models.SoloModel(DecisionTreeClassifier(max_depth=4, random_state=0))
    score = learner.fit(x[:2000], y[:2000], treatment[:2000]).predict(x[2000:])
    assert len(np.unique(score)) < 100
    validation = (y[2000:].to_numpy(), np.asarray(score), treatment[2000:].to_numpy())
    assert values(*validation, "scikit-uplift") == close(scikit_uplift(*validation))


@gate
def test_causalml_examples_from_its_own_pages() -> None:
    dataset = pytest.importorskip("causalml.dataset", reason="needs CausalML")
    assert values(*CAUSALML_ISSUE, "CausalML") == close(causalml(*CAUSALML_ISSUE))

    # The quick start's data; the score is the true effect, then a linear T-learner by hand.
    np.random.seed(42)  # noqa: NPY002 (the generator reads numpy's global state)
    y, x, treatment, effect, _, _ = dataset.synthetic_data(mode=1, n=1000, p=5, sigma=1.0)
    design = np.column_stack([np.ones(len(x)), x])
    fits = [np.linalg.lstsq(design[treatment == a], y[treatment == a])[0] for a in (1, 0)]
    for score in (effect, design @ (fits[0] - fits[1])):
        assert values(y, score, treatment, "CausalML") == close(causalml(y, score, treatment))


@gate
def test_causalml_uses_a_column_named_tau_instead_of_the_outcome() -> None:
    metrics = pytest.importorskip("causalml.metrics", reason="needs CausalML")
    y, score, treatment = UNTIED["balanced"]
    frame = pd.DataFrame({"y": y, "w": treatment, "model": score, "tau": score})
    theirs = metrics.auuc_score(frame)["model"]
    assert theirs == close(metrics.auuc_score(frame.assign(y=-y))["model"])
    assert abs(theirs - causalml(y, score, treatment)["auuc_score(normalize=True)"]) > 0.01


@gate
def test_pylift_examples_from_its_own_pages() -> None:
    theirs = pylift(*PYLIFT_EXAMPLE)
    assert {name: theirs[name] for name in PYLIFT_BY_HAND} == close(PYLIFT_BY_HAND)
    assert values(*PYLIFT_EXAMPLE, "pylift") == close(theirs)

    generate_data = pytest.importorskip("pylift.generate_data", reason="needs pylift")
    frame = generate_data.dgp(N=2000, discrete_outcome=True, seed=5)
    trial = (frame["Outcome"], frame[0], frame["Treatment"])
    assert values(*trial, "pylift") == close(pylift(*trial))


def regenerate() -> None:
    """Print the golden values again, from the libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        golden = {name: call(*GOLDEN_TRIAL) for name, call in LIBRARY.items()}
        # CausalML's order of tied rows differs between processors, so it has no golden values.
        tied = {name: LIBRARY[name](*GOLDEN_TIED_TRIAL) for name in ("scikit-uplift", "pylift")}
    print(f"GOLDEN = {golden}\nGOLDEN_TIED = {tied}")


if __name__ == "__main__":
    regenerate()
