"""The verdict on a ranking, in words that its numbers bear out."""

import pytest

from auucmax.cli.ranking import against, lines_of, to_try, verdict_of


def facts(gain=(0.01, 0.005, 0.015), certified=None, rivals=(), failed=None, doubts=()):
    certificate = None
    if certified is not None:
        certificate = {
            "gain_lower_bound": certified, "delta": 0.05, "text": "It holds, if so.",
            "assumptions": ["if so"], "learnt": (0.2, 0.8),
        }  # fmt: skip
    return {
        "failed_check": failed,
        "auuc": dict(zip(("gain", "gain_lower", "gain_upper"), gain, strict=True)),
        "certificate": certificate,
        "rivals": [
            {"name": name, "verdict": verdict, "auuc": {"estimate": value}}
            for name, verdict, value in rivals
        ],
        "rows": {"n_rows": 900, "treated": 400, "outcome": "0/1"},
        "effect": {"estimate": 0.04, "lower": 0.03, "upper": 0.05},
        "randomisation": {"verdict": "No evidence.", "doubts": doubts},
    }


@pytest.mark.parametrize(
    ("gain", "certified", "words"),
    [
        ((0.01, 0.005, 0.015), 0.002, "The ranking beats a random order, which is certified."),
        ((0.01, 0.005, 0.015), -0.001, "by its interval; this is not certified."),
        ((0.01, -0.005, 0.015), -0.02, "The ranking is not shown to beat a random order."),
        ((0.01, None, None), None, "The ranking is not shown to beat a random order."),
        ((-0.01, -0.015, -0.005), -0.02, "The ranking is worse than a random order."),
    ],
)
def test_the_verdict_says_what_is_certified_shown_or_not_shown(gain, certified, words):
    found = verdict_of(facts(gain, certified))
    assert found.endswith(words)
    assert "robabilit" not in found


def test_conditions_and_failed_checks_come_first():
    found = verdict_of(facts(certified=0.002, doubts=[{"feature": "clicks"}]))
    assert found.startswith("Provided that clicks was known before treatment: the ranking beats")
    assert verdict_of(facts(failed="It fails.")).startswith("Nothing is told of the ranking")
    assert list(lines_of(facts(failed="It fails."), "visit")) == ["rows"]


def test_the_lines_have_the_effect_with_its_interval_and_whom_the_certificate_is_about():
    found = lines_of(facts(certified=0.002, rivals=[("tm", "worse", 0.01)]), "visit")
    assert found["effect of treating everybody"] == "+0.0400 (+0.0300 to +0.0500) in visit"
    assert found["certified gain"] == (
        "at least +0.00200 with probability 0.95, of models that learnt from 20% to 80% of the rows"
    )
    assert found["other models"] == "better than tm"
    assert 3 <= len(found) <= 5
    clipped = facts(certified=0.002)
    clipped["certificate"]["text"] += " 3% of all money lies above 150."
    assert "lies above 150." in lines_of(clipped, "visit")["certified gain"]


def test_what_to_try():
    assert to_try(facts(certified=0.002)) == []
    rivals = [("tm", "better", 0.02), ("cvt", "better", 0.03), ("mom", "worse", 0.01)]
    assert against(facts(rivals=rivals)["rivals"]) == "worse than tm, cvt; better than mom"
    (line,) = to_try(facts(certified=0.002, rivals=rivals))
    assert "`auucmax fit --model cvt --candidates 4`" in line
    (line,) = to_try(facts(certified=-0.002), "m.auucmax")
    assert "`auucmax plan --model m.auucmax` says how many" in line
    (line,) = to_try(facts((-0.01, -0.02, 0.01), -0.02), "m.auucmax")
    assert "plan" not in line  # no number of rows shows a gain that is not there
    assert to_try(facts(failed="It fails.")) == []
