from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.reference import auuc_by_pairs
from tests.strategies import small_trials

from auucmax import metrics
from auucmax.metrics import BinnedLevels, Levels, auuc_difference
from auucmax.metrics.ranking import rank_rows

pytestmark = pytest.mark.filterwarnings("ignore:score should tell rows apart")
quick = settings(deadline=None, max_examples=60)
RANKINGS = st.sampled_from(["joint", "separate"])

#: What is asked of levels -> the function that gives it, and what both are asked with.
QUESTIONS = {
    "auuc": ("auuc_score", {}),
    "inference": ("auuc_inference", {"level": 0.9}),
    "curve": ("uplift_curve", {}),
    "qini_curve": ("qini_curve", {}),
    "qini": ("qini_score", {}),
    "at_k": ("uplift_at_k", {"share": [0.2, 0.7]}),
    "deciles": ("uplift_by_decile", {"bins": 3, "level": 0.8}),
    "band": ("uplift_band", {"shares": [0.3, 1.0], "level": 0.9}),
    "policy_risk": ("policy_risk", {"share": [0.0, 0.4]}),
    "policy_risk_inference": ("policy_risk_inference", {"share": 0.4}),
}
WITH_GROUPS = {"inference", "band", "policy_risk_inference"}


def numbers(found):
    """Whatever was found, as one array."""
    if isinstance(found, pd.DataFrame):
        return found.to_numpy(dtype=float).ravel()
    if isinstance(found, float | np.ndarray):
        return np.ravel(found)
    parts = found if isinstance(found, tuple) else asdict(found).values()
    return np.concatenate([np.ravel(part) for part in parts if not isinstance(part, str | None)])


def same(a, b, **close):
    np.testing.assert_allclose(numbers(a), numbers(b), **({"rtol": 1e-12, "atol": 1e-13} | close))


@quick
@given(small_trials(), st.booleans(), st.booleans())
def test_one_sort_answers_what_the_functions_answer(rows, weighted, clustered):
    options = {"treatment": rows.treated}
    if weighted:
        options |= {"sample_weight": rows.weight, "propensity": rows.propensity}
    groups = np.arange(len(rows.y)) // 2 if clustered and len(rows.y) > 2 else None
    levels = Levels.of(rows.y, rows.score, groups=groups, **options)
    for name, (function, asked) in QUESTIONS.items():
        given_groups = {"groups": groups} if name in WITH_GROUPS else {}
        expected = getattr(metrics, function)(
            rows.y, rows.score, **options, **given_groups, **asked
        )
        same(getattr(levels, name)(**asked), expected)
    assert levels.scores.tolist() == np.unique(rows.score).tolist()
    assert levels.arm_rows == (np.sum(~rows.treated), np.sum(rows.treated))
    assert levels.inference().bin_error == 0
    other = Levels.of(rows.y, -np.abs(rows.score), groups=groups, **options)
    expected = auuc_difference(rows.y, rows.score, -np.abs(rows.score), groups=groups, **options)
    same(levels.difference(other), expected)


@quick
@given(small_trials(), st.booleans())
def test_arms_sorted_together_are_sorted_apart(rows, weighted):
    """An arm that is taken out of the joint order is as if it had been sorted by itself."""
    weights = {"weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    levels = Levels.of(
        rows.y,
        rows.score,
        treatment=rows.treated,
        sample_weight=weights.get("weight"),
        propensity=weights.get("propensity"),
    )
    expected = auuc_by_pairs(rows.y, rows.score, rows.treated, ranking="separate", **weights)
    assert levels.auuc("separate") == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for arm, part in zip((True, False), levels.ranked.parts("separate"), strict=True):
        alone = rank_rows(rows.score[rows.treated == arm])
        own = np.flatnonzero(rows.treated == arm)[alone.order]
        assert part.order.tolist() == own.tolist()
        assert part.y.tolist() == rows.y[own].tolist()
        assert (part.starts is None) == (alone.starts is None)
        if alone.starts is not None:
            assert part.starts.tolist() == alone.starts.tolist()


@quick
@given(small_trials(), st.data())
def test_rows_of_weight_zero_are_no_rows(rows, data):
    """Nobody can tell them from rows that were never there."""
    n = len(rows.y)
    zero = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    # One row of each arm stays.
    zero[[np.argmax(rows.treated), np.argmin(rows.treated)]] = False
    weighted = Levels.of(
        rows.y, rows.score, treatment=rows.treated, sample_weight=np.where(zero, 0, rows.weight)
    )
    kept = ~zero
    without = Levels.of(
        rows.y[kept],
        rows.score[kept],
        treatment=rows.treated[kept],
        sample_weight=rows.weight[kept],
    )
    for name, (_, asked) in QUESTIONS.items():
        same(getattr(weighted, name)(**asked), getattr(without, name)(**asked))


@pytest.mark.parametrize("weighted", [False, True])
def test_outcomes_far_from_zero_keep_their_digits(weighted):
    rng = np.random.default_rng(3)
    n = 400
    y, score, t = rng.integers(0, 8, n) / 8, rng.normal(size=n), rng.random(n) < 0.4
    options = {"treatment": t, "sample_weight": rng.integers(1, 4, n) if weighted else None}
    near, far = (Levels.of(y + c, score, **options) for c in (0.0, 2.0**22))
    share = [0.1, 0.5, 1.0]
    errors = [x.policy_risk_inference(share).standard_error for x in (near, far)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)
    # All are treated: the error of an effect. Elsewhere that of the curve grows with the outcome.
    bands = [x.band([1.0]).standard_error for x in (near, far)]
    assert bands[1] == pytest.approx(bands[0], rel=1e-6)


def test_what_is_refused():
    y, score, t = [1.0, 0.0, 1.0, 0.0], [1.0, 2.0, 3.0, 4.0], [1, 0, 1, 0]
    levels = Levels.of(y, score, treatment=t)
    assert repr(levels) == "Levels(4 rows, 4 different scores)"
    for other in (
        Levels.of(y[:3], score[:3], treatment=t[:3]),
        BinnedLevels.of(y, score, t, [2.5]),
    ):
        with pytest.raises(ValueError, match="two scores of the same rows in memory"):
            levels.difference(other)
    with pytest.raises(ValueError, match="ranking should be one of"):
        levels.band(ranking="both")
    with pytest.raises(ValueError, match="bins should be a whole number of at least 1"):
        levels.deciles(0)
    with pytest.raises(ValueError, match="score_b should be of as many rows"):
        auuc_difference(y, score, score[:3], treatment=t)
    with pytest.warns(UserWarning, match="one value for all") as caught:
        Levels.of(y, [1, 1, 1, 1], treatment=t).inference()
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="one value for all"):
        metrics.auuc_inference(y, [1, 1, 1, 1], treatment=t)
