""""""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from auucmax.data.trial import Trial


def two_arms(n=200, seed=0, **more):
    rng = np.random.default_rng(seed)
    t = rng.random(n) < 0.4
    y = (rng.random(n) < 0.3 + 0.2 * t).astype(float)
    return Trial(rng.normal(size=(n, 3)), y, t, **more)


def three_arms(n=300, seed=1, **more):
    rng = np.random.default_rng(seed)
    t = rng.choice(["none", "mail", "call"], n)
    return Trial(rng.normal(size=(n, 2)), rng.normal(size=n), t, control="none", **more)


def test_more_labels_stay_labels():
    trial = three_arms()
    assert trial.is_multi_arm
    assert trial.arms == ("none", "call", "mail") == trial.arm_names
    assert set(trial.treatment.tolist()) == {"none", "call", "mail"}
    with pytest.raises(ValueError, match=r"'none', 'call', 'mail'.*select_arm\('call'\)"):
        _ = trial.treated
    numbers = Trial(np.zeros((3, 1)), [1, 2, 3], [2, 0, 1], arm_names=("no", "low", "high"))
    assert numbers.arms == (0, 1, 2)
    assert numbers.arm_names == ("no", "low", "high")


GOOD = {"X": [[1], [2], [3]], "y": [0, 1, 0], "treatment": [0, 1, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[1], [2]]}, r"X should be .* features of 3 rows.*of shape \(2, 1\)"),
        ({"X": [1, 2, 3]}, r"X should be a frame or a .*two-dimensional array.*shape \(3,\)"),
        ({"X": pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])}, r"'a' more than once"),
        ({"y": [0, None, 1]}, r"y should be without missing values, got 1"),
        ({"y": []}, r"y should be a column with at least one row"),
        ({"treatment": [0, 1]}, r"treatment should be of as many rows as y, 3, got 2"),
        ({"treatment": ["a", None, "b"]}, r"treatment should be without missing values, got 1"),
        (
            {"treatment": pd.array([0, 1, None])},
            r"treatment should be without missing values, got 1",
        ),
        ({"treatment": [1, 1, 1]}, r"control should be .*0 and the labels 1\. .* both arms"),
        ({"treatment": ["a", "b", "a"]}, r"Pass control=\.\.\., for example control='a'"),
        ({"treatment": ["a", "b", "a"], "control": "c"}, r"got 'c' and the labels 'a', 'b'"),
        ({"treatment": ["a", "b", "c"]}, r"got 0 and the labels 'a', 'b', 'c'"),
        ({"arm_names": ("a", "b", "c")}, r"arm_names should be a name for each of the 2 arms"),
        ({"sample_weight": [1, -1, 1]}, r"be 0 or positive, got a smallest weight of -1"),
        ({"sample_weight": [0, 1, 1]}, r"only zeros for the control rows"),
        ({"sample_weight": [1, 1]}, r"sample_weight should be of as many rows as y"),
        ({"id": ["a"]}, r"id should be of as many rows as y, 3, got 1"),
        ({"effect": [1, np.inf, 0]}, r"effect should be finite numbers"),
        ({"randomised": [1, 2, 0]}, r"randomised should be boolean or 0/1"),
    ],
)
def test_bad_input_has_one_clear_error(change, message):
    with pytest.raises(ValueError, match=message):
        Trial(**(GOOD | change))


def full_trial(n=120):
    rng = np.random.default_rng(3)
    return two_arms(
        n,
        sample_weight=rng.random(n) + 0.1,
        id=np.array([f"p{i}" for i in range(n)]),
        effect=rng.normal(size=n),
        randomised=rng.random(n) < 0.7,
        name="full",
        outcome_name="visit",
        arm_names=("no", "yes"),
    )


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_take_carries_every_row_field(data):
    trial = full_trial()
    rows = data.draw(st.lists(st.integers(-120, 119), min_size=1, max_size=40))
    rows += [int(np.argmax(trial.treated)), int(np.argmin(trial.treated))]
    part = trial.take(rows)
    for name in ("y", "treatment", "sample_weight", "id", "effect", "randomised"):
        np.testing.assert_array_equal(getattr(part, name), getattr(trial, name)[rows])
    pd.testing.assert_frame_equal(part.X, trial.X.iloc[rows])
    assert (part.name, part.outcome_name, part.arm_names) == ("full", "visit", ("no", "yes"))


def test_select_arm():
    trial = three_arms()
    call = trial.select_arm("call")
    kept = trial.treatment != "mail"
    assert call.arm_names == ("none", "call")
    np.testing.assert_array_equal(call.treated, trial.treatment[kept] == "call")
    np.testing.assert_array_equal(call.y, trial.y[kept])
    for wrong in ("none", "fax", 1):
        with pytest.raises(ValueError, match=r"one of the arms 'call', 'mail'.*'none'"):
            trial.select_arm(wrong)
    named = Trial(np.zeros((4, 1)), [1, 2, 3, 4], [0, 1, 2, 0], arm_names=("none", "mail", "call"))
    assert named.select_arm("call").y.tolist() == named.select_arm(2).y.tolist() == [1, 3, 4]
    assert named.select_arm("call").arm_names == ("none", "call")
    two = two_arms()
    np.testing.assert_array_equal(two.select_arm(1).y, two.y)


@pytest.mark.parametrize("by", ["treatment", "treatment-outcome"])
@pytest.mark.parametrize("test_size", [0.1, 0.3, 0.5])
def test_split_keeps_the_shares(by, test_size):
    n = 1000
    trial = two_arms(n, id=np.arange(n))
    train, test = trial.split(test_size, by, random_state=5)
    np.testing.assert_array_equal(np.sort(np.concatenate([train.id, test.id])), np.arange(n))
    assert (np.diff(train.id) > 0).all()
    assert (np.diff(test.id) > 0).all()
    cell = trial.treatment if by == "treatment" else 2 * trial.treatment + trial.y.astype(int)
    for value in np.unique(cell):
        size = (cell == value).sum()
        assert abs((cell[test.id] == value).sum() - test_size * size) <= 0.5


def test_summary_is_welch():
    trial = two_arms(300)
    treated, control = trial.y[trial.treated], trial.y[~trial.treated]
    expected = stats.ttest_ind(treated, control, equal_var=False)
    interval = expected.confidence_interval(0.95)
    summary = trial.summary()
    (effect,) = summary.effects
    got = (effect.effect, effect.low, effect.high, effect.p_value)
    want = (treated.mean() - control.mean(), interval.low, interval.high, expected.pvalue)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    assert [a.n_rows for a in summary.arms] == [len(control), len(treated)]
    assert sum(a.share for a in summary.arms) == pytest.approx(1)
    assert json.loads(json.dumps(dataclasses.asdict(summary)))["n_rows"] == 300


def test_summary_of_several_arms_and_of_no_spread():
    trial = three_arms()
    effects = trial.summary().effects
    assert [e.name for e in effects] == ["call", "mail"]
    for e in effects:
        assert e.effect == pytest.approx(trial.select_arm(e.name).summary().effects[0].effect)
    flat = Trial(np.zeros((4, 1)), [1, 1, 1, 1], [0, 0, 1, 1]).summary().effects[0]
    assert (flat.effect, flat.standard_error, flat.p_value) == (0, 0, 1)
    certain = Trial(np.zeros((4, 1)), [0, 0, 1, 1], [0, 0, 1, 1]).summary().effects[0]
    assert (certain.effect, certain.p_value) == (1, 0)
    single = Trial(np.zeros((3, 1)), [0, 1, 1], [0, 0, 1]).summary().effects[0]
    assert single.effect == 0.5
    assert np.isnan([single.standard_error, single.low, single.p_value]).all()


def test_weights_in_the_summary():
    trial = two_arms(100)
    n = trial.n_rows
    equal = dataclasses.replace(trial, sample_weight=np.full(n, 3.0)).summary().effects[0]
    plain = trial.summary().effects[0]
    np.testing.assert_allclose(dataclasses.astuple(equal)[1:6], dataclasses.astuple(plain)[1:6])
    # A weight of zero is an absent row.
    weight = (np.arange(n) % 4 > 0).astype(float)
    zeros = dataclasses.replace(trial, sample_weight=weight).summary().effects[0]
    gone = trial.take(weight > 0).summary().effects[0]
    assert (zeros.effect, zeros.standard_error) == pytest.approx((gone.effect, gone.standard_error))
    assert zeros.p_value == pytest.approx(gone.p_value)
    weight = np.random.default_rng(0).random(n)
    weighted = dataclasses.replace(trial, sample_weight=weight)
    want = np.average(trial.y[trial.treated], weights=weight[trial.treated])
    assert weighted.summary().arms[1].mean == pytest.approx(want)


def homes(n_homes=300, seed=0):
    """Households of one to four, each in one arm, with outcomes in common."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n_homes), rng.integers(1, 5, n_homes))
    y = rng.normal(size=n_homes)[home] + 0.1 * rng.normal(size=len(home))
    X = rng.normal(size=(len(home), 2))
    return Trial(X, y, (rng.random(n_homes) < 0.5)[home], groups=home)


def test_split_keeps_groups_whole_and_the_shares_of_their_arms():
    trial = homes()
    train, test = trial.split(0.3, random_state=0)
    assert train.n_rows + test.n_rows == trial.n_rows
    assert not set(train.groups) & set(test.groups)
    for arm in (0, 1):
        whole, part = (len(np.unique(t.groups[t.treatment == arm])) for t in (trial, test))
        assert part == round(0.3 * whole)
    alone = dataclasses.replace(trial, groups=None).split(0.3, random_state=0)
    each = dataclasses.replace(trial, groups=np.arange(trial.n_rows)).split(0.3, random_state=0)
    np.testing.assert_array_equal(each[1].y, alone[1].y)


def test_standard_errors_are_by_group():
    trial = homes()
    alone = dataclasses.replace(trial, groups=None).summary().effects[0]
    each = dataclasses.replace(trial, groups=np.arange(trial.n_rows)).summary().effects[0]
    assert each == alone
    (effect,) = trial.summary().effects
    assert effect.effect == alone.effect
    assert effect.standard_error > 1.3 * alone.standard_error
    # Of groups of one size it is the error of their means.
    same = Trial([[0.0]] * 8, [1, 3, 2, 2, 5, 1, 4, 8], [0, 0, 0, 0, 1, 1, 1, 1],
                 groups=[0, 0, 1, 1, 2, 2, 3, 3])  # fmt: skip
    means = Trial([[0.0]] * 4, [2, 2, 3, 6], [0, 0, 1, 1])
    expected = means.summary().effects[0]
    found = same.summary().effects[0]
    assert found.standard_error == pytest.approx(expected.standard_error)
    assert found.p_value == pytest.approx(expected.p_value)
    with pytest.raises(ValueError, match="groups should be without missing values"):
        Trial([[0.0]] * 4, [2, 2, 3, 6], [0, 0, 1, 1], groups=[0, 1, None, 2])


def test_groups_with_rows_of_both_arms_have_one_error():
    """What the rows of a shop share cancels in the effect, if both arms are in it."""
    rng = np.random.default_rng(0)
    shop = np.repeat(np.arange(60), 100)
    t = rng.integers(0, 2, 6_000)
    y = rng.normal(size=60)[shop] + rng.normal(size=6_000)
    (effect,) = Trial(pd.DataFrame({"x": y}), y, t, groups=shop).summary().effects
    assert effect.standard_error == pytest.approx(2 * np.sqrt(2 / 6_000), rel=0.25)
    whole = Trial(pd.DataFrame({"x": y}), y, shop % 2, groups=shop).summary().effects[0]
    assert whole.standard_error > 5 * effect.standard_error
