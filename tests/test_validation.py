"""Bad input is refused by every metric, and the error names the argument."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from auucmax import auuc_difference, auuc_inference, auuc_score, policy_risk
from auucmax._errors import InputError
from auucmax._validation import (
    check_column,
    check_outcome,
    check_treatment,
)
from auucmax.metrics import (
    conventions,
    policy_risk_inference,
    qini_curve,
    qini_score,
    uplift_at_k,
    uplift_band,
    uplift_by_decile,
    uplift_curve,
)

Y, SCORE, T = [1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], [1, 1, 0, 0]


DATES = np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-03"], "M8[D]")
MOMENTS = pd.date_range("2020-01-01", periods=4, tz="UTC").astype(object)
#: What is wrong: the changed arguments, the first of which the error names.
BAD_ROWS = {
    "y missing": {"y": [1, None, 1, 0]},
    "y nan": {"y": [1, np.nan, np.nan, 0]},
    "y NA": {"y": pd.array([1, None, 1, 0], dtype="Int64")},
    "y masked": {"y": np.ma.array(Y, mask=[1, 0, 0, 0])},
    "y infinite": {"y": [1, np.inf, 1, 0]},
    "y words": {"y": ["yes", "no", "yes", "no"]},
    "y complex": {"y": [1j, 0, 1, 0]},
    "y two-dimensional": {"y": [[1, 0], [1, 0], [1, 0], [0, 1]]},
    "no rows": {"y": [], "score": [], "treatment": []},
    "score dates": {"score": DATES},
    "score moments": {"score": MOMENTS},
    "score short": {"score": [1, 2, 3]},
    "score nan": {"score": [1, 2, np.nan, 3]},
    "score infinite": {"score": [1, 2, -np.inf, 3]},
    "treatment short": {"treatment": [1, 0, 1]},
    "treatment nan": {"treatment": [1, np.nan, 0, 0]},
    "treatment None": {"treatment": ["a", None, "b", "b"]},
    "treatment three levels": {"treatment": [0, 1, 2, 0]},
    "treatment words": {"treatment": ["mail", "mail", "none", "none"]},
    "treatment other numbers": {"treatment": [1, 2, 1, 2]},
    "treatment one level": {"treatment": [1, 1, 1, 1]},
    "treatment all false": {"treatment": [False] * 4},
    "control not there": {"control": "c", "treatment": ["a", "a", "b", "b"]},
    "control of three": {"treatment": ["a", "b", "c", "c"], "control": "c"},
    "control odd": {"control": "False", "treatment": [True, True, False, False]},
    "weight negative": {"sample_weight": [1, -2, 1, 1]},
    "weight zero in an arm": {"sample_weight": [1, 1, 0, 0]},
    "propensity one": {"propensity": [0.5, 1.0, 0.5, 0.5]},
}
METRICS = [
    auuc_inference,
    auuc_score,
    conventions,
    policy_risk,
    policy_risk_inference,
    qini_curve,
    qini_score,
    uplift_at_k,
    uplift_band,
    uplift_by_decile,
    uplift_curve,
]


def test_a_label_control_is_the_control_unless_another_is_named():
    mailed = np.array(T) == 1
    for label in ("control", " Control"):
        labels = np.where(mailed, "a mail", label)
        assert check_treatment(labels).tolist() == mailed.tolist()
        assert check_treatment(labels, control="a mail").tolist() == (~mailed).tolist()
        assert auuc_score(Y, SCORE, treatment=labels) == auuc_score(Y, SCORE, treatment=T)
    with pytest.raises(ValueError, match="of which control names one"):
        check_treatment(["control", "Control"])
    with pytest.raises(ValueError, match="one, got 'control', 'mail', 'phone'"):
        check_treatment(["control", "mail", "phone"])


@pytest.mark.parametrize("metric", METRICS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(metric, case):
    changed = BAD_ROWS[case]
    if metric is conventions and not changed.keys() <= {"y", "score", "treatment", "control"}:
        pytest.skip("other libraries have no weights")
    arguments = {"y": Y, "score": SCORE, "treatment": T, **changed}
    with pytest.raises(InputError) as caught:
        metric(arguments.pop("y"), arguments.pop("score"), **arguments)
    assert caught.value.parameter == next(iter(changed))


FEW = {
    "treatment": T * 2, "share": 0.5, "sample_weight": [1, 1, 0, 0, 1, 1, 1, 1],
    "randomised": [1] * 4 + [0] * 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "options", "words"),
    [
        (auuc_score, {"ranking": "both"}, "ranking should be one of"),
        (auuc_inference, {"level": 95}, "level should be a number strictly between"),
        (auuc_inference, {"level": "0.95"}, "level should be a number"),
        (auuc_inference, {"groups": [1, 1, 1, 1]}, "groups should be"),
        (auuc_inference, {"groups": ["a", None, "b", "b"]}, "groups should be"),
        (uplift_at_k, {"share": 30}, "share should be .* between 0 and 1, got 30"),
        (uplift_at_k, {"share": None}, "share should be"),
        (uplift_by_decile, {"bins": 0}, "bins should be a whole number"),
        (uplift_by_decile, {"bins": "3"}, "bins should be a whole number"),
        (uplift_by_decile, {"level": 95}, "level should be a number"),
        (policy_risk, {"randomised": ["y", "n", "y", "n"]}, "randomised should be"),
        (policy_risk, FEW, "the rows that remain should be of both arms"),
    ],
)
def test_bad_options(metric, options, words):
    n = len(options.get("treatment", T)) // len(T)
    with pytest.raises(ValueError, match=words):
        metric(Y * n, SCORE * n, **({"treatment": T} | options))


def test_two_scores_are_of_as_many_rows():
    with pytest.raises(ValueError, match="score_b should be of as many rows as y, 4, got 1"):
        auuc_difference(Y, SCORE, [1], treatment=T)


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series, pl.Series])
def test_containers(container):
    expected = auuc_score(np.array(Y), np.array(SCORE), treatment=np.array(T))
    assert auuc_score(container(Y), container(SCORE), treatment=container(T)) == expected


def test_labels_as_text_categories_and_columns():
    expected = auuc_score(Y, SCORE, treatment=T)
    words = ["m", "m", "n", "n"]
    for labels in (words, pd.Series(words), pd.Series(words, dtype="category"), pl.Series(words)):
        assert auuc_score(Y, SCORE, treatment=labels, control="n") == expected
    as_columns = pd.DataFrame({"y": Y, "score": SCORE})
    assert auuc_score(as_columns[["y"]], as_columns[["score"]], treatment=T) == expected
    assert auuc_score([True, False, True, False], SCORE, treatment=T) == expected
    assert auuc_score(Y, SCORE, treatment=[1.0, 1.0, 0.0, 0.0]) == expected
    assert auuc_score(Y, SCORE, treatment=np.array([1, 1, 0, 0], dtype=object)) == expected


def test_huge_numbers_are_not_taken_for_infinite_ones():
    assert check_column([1e308, 1e308], "y").tolist() == [1e308, 1e308]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0, 1e154], "between 1e-100 and 1e"), ([0, -1e249], "got 1e"), ([0, 1e-160], "1e-160"),
        ([1e30, 1e30 + 2e14], "Floats round such differences away"), ([1e30, 1e30], "first 12"),
    ],
)  # fmt: skip
def test_outcomes_that_floats_cannot_compute_with(y, words):
    with pytest.raises(ValueError, match=words):
        check_outcome(y, "the outcome")
    with pytest.raises(ValueError, match=words):
        auuc_score(y * 2, SCORE, treatment=T)


def test_outcomes_that_floats_can_compute_with():
    for y in ([0.0, 0.0], [7.0, 7.0], [1e99, -1e99], [0, 1e-99], [1e9, 1e9 + 1]):
        assert check_outcome(np.array(y, dtype=float)).tolist() == y


def test_extreme_weights_and_wide_integers():
    expected = auuc_score(Y, SCORE, treatment=T, sample_weight=[1, 2, 3, 4])
    for size in (1e-200, 1e200):
        weight = size * np.array([1, 2, 3, 4])
        assert auuc_score(Y, SCORE, treatment=T, sample_weight=weight) == pytest.approx(expected)
        result = auuc_inference(Y, SCORE, treatment=T, sample_weight=weight)
        assert np.isfinite(result.standard_error)
    wide = 2**60 + np.array([3, 2, 1, 0])  # one float64 for all of them
    assert auuc_score(Y, wide, treatment=T) == auuc_score(Y, SCORE, treatment=T)
    assert auuc_score(Y, wide.astype(np.uint64), treatment=T) == auuc_score(Y, SCORE, treatment=T)
