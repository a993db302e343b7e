"""What a monitor is of; windows are tested with arrivals, states with monitors."""

import pytest
from tests.campaign.trial_days import NAMED, running

from auucmax.campaign.settings import check_settings, settings_of


@pytest.fixture
def rows():
    return running(100)


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"propensity": "other"}, "got propensity alone. Pass propensity=COLUMN and least_chance"),
        ({"least_chance": 0.1}, "got least_chance alone"),
        ({"propensity": "other", "least_chance": 0.7}, "least_chance should be above 0, at most"),
        ({"propensity": "othr", "least_chance": 0.1}, "othr"),
        (
            {"propensity": "other", "least_chance": 0.1, "treated_share": 0.5},
            "treated_share should be left out with propensity",
        ),
        ({"groups": "mail"}, "groups should be another column than treatment"),
    ],
)
def test_groups_and_chances_that_do_not_belong_together(rows, named, match):
    with pytest.raises(ValueError, match=match):
        settings_of(rows, None, **NAMED | named)


def test_what_is_given_again_must_be_the_same(rows):
    settings = settings_of(rows, None, **NAMED)
    check_settings(settings, "s", NAMED | {"window": 5})
    with pytest.raises(ValueError, match="groups should be None, as in the state file s"):
        check_settings(settings, "s", {"groups": "other"})
    for unknown in ("shares", "others", "columns"):
        with pytest.raises(ValueError, match=f"{unknown} should be one of 'control', 'date'"):
            check_settings(settings, "s", {unknown: 0.5})


def test_a_column_that_is_called_like_a_model_is_a_column(rows):
    own = rows.rename(columns={"score": "model x"})
    settings = settings_of(own, None, **NAMED | {"score_column": "model x"})
    assert (settings.by_model, "model x" in settings.columns) == (False, True)


def test_other_arms_are_those_of_the_first_table(rows):
    own = rows.assign(mail=rows["mail"].astype(str).where(rows.index > 9, "call"))
    settings = settings_of(own, None, **NAMED, treated="1", control="0")
    assert settings.others == ("call",)
