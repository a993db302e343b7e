from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from tests.data.fair_trials import checked, fair_trial, with_feature

from auucmax.data.randomisation import check_randomisation
from auucmax.data.suspects import SMALL
from auucmax.data.trial import Trial
from auucmax.present.brief import text


def test_report_is_plain_numbers() -> None:
    report = check_randomisation(fair_trial(9), expected_share=0.5)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["ok"] is True
    assert len(plain["differences"]) == len(report.differences)
    assert sum(plain["counts"].values()) == plain["n_rows"] == 2_000
    assert repr(report) == str(report)


def test_what_cannot_be_tested_is_said() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 40))).assign(name=[f"u{i}" for i in range(30)])
    report = check_randomisation(Trial(X, np.arange(30) % 3, np.arange(30) % 2))
    assert not report.tests
    assert report.ok is False
    assert report.to_dict()["ok"] is False
    for note in ("planned share", "more rows than columns", "50 rows of each arm"):
        assert note in " ".join(report.notes)
    only = Trial(pd.DataFrame({"one": np.ones(500)}), np.arange(500) % 3, np.arange(500) % 2)
    report = check_randomisation(only, expected_share=0.5)
    assert [test.name for test in report.tests] == ["sample ratio"]
    assert "one (it has only one value)" in " ".join(report.notes)
    assert not check_randomisation(only).ok


@pytest.mark.gate
def test_a_trace_in_many_rows_is_called_small() -> None:
    rng = np.random.default_rng(0)
    n = 300_000
    x = rng.normal(size=n)
    treatment = (rng.random(n) < 0.5 + 0.0045 * x).astype(int)
    trial = Trial(pd.DataFrame({"x": x}), rng.random(n) < 0.1, treatment)
    report = check_randomisation(trial)
    assert {test.name for test in report.failures} >= {"likelihood ratio"}
    assert report.differences["difference"].abs().max() < SMALL


def test_what_treatment_depends_on_is_named_without_a_pure_end() -> None:
    trial = fair_trial(2, 4_000)
    rng = np.random.default_rng(0)
    chance = 1 / (1 + np.exp(-0.4 * trial.X["c"].to_numpy()))
    report = check_randomisation(Trial(trial.X, trial.y, (rng.random(4_000) < chance).astype(int)))
    assert not report.suspects
    assert report.stops
    assert report.treated_by == ("c",)


def test_what_is_known_only_after_treatment_may_be_ignored() -> None:
    trial = fair_trial(6, 4_000)
    reply = np.where(trial.treated & (np.arange(4_000) % 9 == 0), 1.0, np.nan)
    late = with_feature(trial, sent=trial.treatment, reply=reply)
    report = check_randomisation(late)
    assert report.stops
    assert not report.failures
    assert [(s.feature, s.measure) for s in report.suspects] == [
        ("sent", "AUC"),
        ("reply", "values"),
    ]
    assert all(own.is_after for own in report.suspects)
    ignored = checked(late, ignore=["sent", "reply"])
    assert ignored.ok
    assert not ignored.suspects
    after = checked(late, after=["sent", "reply"])
    assert after.provided == ignored.provided == ("sent", "reply")


def test_one_good_trial_in_a_hundred_is_warned_of_and_not_stopped() -> None:
    trial = fair_trial(1, 6_000)
    lost = np.flatnonzero(trial.treated)[:290]
    report = check_randomisation(trial.take(np.delete(np.arange(6_000), lost)), expected_share=0.5)
    (failure,) = report.failures
    assert 1e-4 < failure.adjusted_p_value < 0.01
    assert not report.ok
    assert not report.stops
    assert failure.name == "sample ratio"


def test_a_feature_without_values_in_one_arm_has_no_difference():
    rng = np.random.default_rng(0)
    treatment = np.arange(30) % 2
    words = np.where(treatment == 1, rng.choice(["yes", "no"], 30), None)
    words[10:] = None  # so few that it is no suspect
    frame = pd.DataFrame({"word": words, "age": rng.normal(size=30)})
    report = check_randomisation(Trial(frame, rng.integers(0, 2, 30), treatment))
    assert report.differences["difference"].isna().sum() == 2
    assert "nan" not in text(report, details=True)
    assert report.differences.set_index("feature")["few"]["word=yes"]
    assert "word=yes" not in set(report.for_others().differences["feature"])


def test_what_few_people_lack_is_told_to_others_without_numbers():
    trial = fair_trial(3, 3_000)
    for n_missing, fails in ((1, False), (18, True)):
        frame = trial.X.dropna(axis=1).assign(home=np.where(np.arange(3_000) % 2, 1.0, 2.0))
        frame.loc[np.flatnonzero(trial.treated)[:n_missing], "home"] = np.nan
        report = check_randomisation(Trial(frame, trial.y, trial.treatment))
        others = report.for_others()
        assert any(f"{n_missing / trial.treated.sum():.2%}" in test.detail for test in report.tests)
        for words in (text(others, details=True), others.message, json.dumps(others.to_dict())):
            assert "% of control" not in words
        (test,) = (test for test in others.tests if test.few)
        assert np.isnan(test.statistic)
        assert test.p_value in (1.0, 1e-5, report.alpha)
        assert (len(others.failures) > 0) == (len(report.failures) > 0) == fails
        assert (others.stops, others.ok) == (report.stops, report.ok)
        assert others.missing.empty
        assert len(others.differences) > 0


def test_outcomes_that_few_lack_are_told_to_others_without_numbers():
    trial = fair_trial(3, 3_000)
    lost = {name: (2 * k, 1_500 + 2 * k) for k, name in enumerate(trial.arm_names)}
    report = check_randomisation(trial, missing_outcomes=lost)
    assert any("2 of 1,502 rows" in test.detail for test in report.tests)
    assert "2 of 1,502 rows" not in json.dumps(report.for_others().to_dict())
