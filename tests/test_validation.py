"""Bad input, message by message: what was expected, what came, what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from auucmax import auuc_difference, auuc_inference, auuc_score, policy_risk
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


def with_(column, **changed):
    return {"y": Y, "score": SCORE, "treatment": T, **{column: changed["to"]}}


BAD_ROWS = {
    "y missing": (
        with_("y", to=[1, None, 1, 0]),
        "y should be without missing values, got 1. Drop",
    ),
    "y nan": (with_("y", to=[1, np.nan, np.nan, 0]), "y should be without missing values, got 2"),
    "y NA": (
        with_("y", to=pd.array([1, None, 1, 0], dtype="Int64")),
        "y should be without missing values, got 1",
    ),
    "y masked": (
        with_("y", to=np.ma.array(Y, mask=[1, 0, 0, 0])),
        "y should be without missing values, got 1",
    ),
    "y infinite": (with_("y", to=[1, np.inf, 1, 0]), "y should be finite numbers, got 1 inf"),
    "y words": (
        with_("y", to=["yes", "no", "yes", "no"]),
        "y should be numbers, got .* such as .*yes.* Convert",
    ),
    "y complex": (with_("y", to=[1j, 0, 1, 0]), "y should be real numbers"),
    "score dates": (
        with_("score", to=np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-03"], "M8[D]")),
        "score should be real numbers, got datetime64",
    ),
    "score moments": (
        with_("score", to=pd.date_range("2020-01-01", periods=4, tz="UTC").astype(object)),
        r"score should be numbers, got object values such as '2020-01-01 00:00:00\+00:00'\.",
    ),
    "boolean treatment, odd control": (
        {**with_("treatment", to=[True, True, False, False]), "control": "False"},
        "control should be one of the labels in treatment, False, True, got 'False'",
    ),
    "y two-dimensional": (
        with_("y", to=[[1, 0], [1, 0], [1, 0], [0, 1]]),
        r"y should be one-dimensional.*shape \(4, 2\). Pass a single column",
    ),
    "no rows": (
        {"y": [], "score": [], "treatment": []},
        "y should be a column with at least one row, got none. Check the data source",
    ),
    "score short": (
        with_("score", to=[1, 2, 3]),
        "score should be of as many rows as y, 4, got 3. Pass columns of the same rows",
    ),
    "score nan": (with_("score", to=[1, 2, np.nan, 3]), "score should be without missing values"),
    "score infinite": (with_("score", to=[1, 2, -np.inf, 3]), "score should be finite numbers"),
    "treatment short": (with_("treatment", to=[1, 0, 1]), "treatment should be of as many rows"),
    "treatment nan": (
        with_("treatment", to=[1, np.nan, 0, 0]),
        "treatment should be without missing values, got 1.*may differ between the arms",
    ),
    "treatment None": (
        with_("treatment", to=["a", None, "b", "b"]),
        "treatment should be without mis",
    ),
    "treatment three levels": (
        with_("treatment", to=[0, 1, 2, 0]),
        "of which control names one, got 0, 1, 2. Keep the rows of one arm",
    ),
    "treatment words": (
        with_("treatment", to=["mail", "mail", "none", "none"]),
        "of which control names one, got 'mail', 'none'. .* pass control=",
    ),
    "treatment other numbers": (
        with_("treatment", to=[1, 2, 1, 2]),
        "of which control names one, got 1, 2. .* pass control=",
    ),
    "treatment one level": (
        with_("treatment", to=[1, 1, 1, 1]),
        "two levels, treated and control, got treated in all 4 rows. An effect needs both arms",
    ),
    "treatment all false": (with_("treatment", to=[False] * 4), "got control in all 4 rows"),
    "control not there": (
        {**with_("treatment", to=["a", "a", "b", "b"]), "control": "c"},
        "control should be one of the labels in treatment, 'a', 'b', got 'c'",
    ),
    "control of three": (
        {**with_("treatment", to=["a", "b", "c", "c"]), "control": "c"},
        "two labels of which control names one, got 'a', 'b', 'c'",
    ),
    "weight negative": (
        {**with_("y", to=Y), "sample_weight": [1, -2, 1, 1]},
        "sample_weight should be 0 or positive, got a smallest weight of -2. Drop",
    ),
    "weight zero in an arm": (
        {**with_("y", to=Y), "sample_weight": [1, 1, 0, 0]},
        "got only zeros for the control rows",
    ),
    "propensity one": (
        {**with_("y", to=Y), "propensity": [0.5, 1.0, 0.5, 0.5]},
        "propensity should be strictly between 0 and 1.*got values from 0.5 to 1. Drop",
    ),
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
    arguments, message = BAD_ROWS[case]
    arguments = dict(arguments)
    if metric is conventions and not arguments.keys() <= {"y", "score", "treatment", "control"}:
        pytest.skip("other libraries have no weights")
    with pytest.raises(ValueError, match=message):
        metric(arguments.pop("y"), arguments.pop("score"), **arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auuc_score(Y, SCORE, treatment=T, ranking="both"), "ranking should be one of 'jo"),
        (
            lambda: auuc_inference(Y, SCORE, treatment=T, level=95),
            "level should be a number strictly betw",
        ),
        (
            lambda: auuc_inference(Y, SCORE, treatment=T, groups=[1, 1, 1, 1]),
            "groups should be labels of at least two clusters",
        ),
        (
            lambda: auuc_inference(Y, SCORE, treatment=T, groups=["a", None, "b", "b"]),
            "groups should be without missing values",
        ),
        (
            lambda: auuc_difference(Y, SCORE, [1], treatment=T),
            "score_b should be of as many rows as y, 4, got 1",
        ),
        (
            lambda: uplift_at_k(Y, SCORE, treatment=T, share=30),
            "share should be .* between 0 and 1, got 30",
        ),
        (lambda: uplift_by_decile(Y, SCORE, treatment=T, bins=0), "bins should be a whole number"),
        (lambda: uplift_by_decile(Y, SCORE, treatment=T, bins="3"), "bins should be a whole num"),
        (lambda: uplift_by_decile(Y, SCORE, treatment=T, level=95), "level should be a number"),
        (lambda: auuc_inference(Y, SCORE, treatment=T, level="0.95"), "level should be a number"),
        (lambda: uplift_at_k(Y, SCORE, treatment=T, share=None), "share should be a number or a"),
        (
            lambda: policy_risk(
                Y * 2,
                SCORE * 2,
                treatment=T * 2,
                share=0.5,
                sample_weight=[1, 1, 0, 0, 1, 1, 1, 1],
                randomised=[1] * 4 + [0] * 4,
            ),
            "the rows that remain should be of both arms",
        ),
        (
            lambda: policy_risk(Y, SCORE, treatment=T, randomised=["y", "n", "y", "n"]),
            "randomised should be boolean or 0/1",
        ),
    ],
)
def test_bad_options(call, message):
    with pytest.raises(ValueError, match=message):
        call()


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
