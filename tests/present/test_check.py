import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.present.hostile import HOSTILE
from tests.present.test_page import Page

from auucmax import Trial, check_randomisation
from auucmax.present import render, summarise_check


def checked(n=2_000, *, broken=False, names=("age", "shop", "income")):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            names[0]: rng.normal(size=n),
            names[1]: rng.choice(["a", "b", "rare"], n, p=[0.6, 0.398, 0.002]),
            names[2]: np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2, size=n)),
        }
    )
    treated = rng.random(n) < (0.5 + 0.3 * broken * (frame[names[0]] > 0))
    trial = Trial(frame, (rng.random(n) < 0.3).astype(float), treated.astype(int))
    return frame, trial, treated


@pytest.mark.parametrize("broken", [False, True])
def test_arms_balance_missing_values_and_columns(broken):
    frame, trial, treated = checked(broken=broken)
    report = check_randomisation(trial)
    found = summarise_check(report, trial.summary(), frame, treated, outcome="0/1", file="t.csv")
    assert json.loads(json.dumps(found)) == found
    page = render(found)
    parsed = Page(page)
    assert parsed.text.count(report.verdict) == 1
    assert ("The trial fails its check" in parsed.text) == broken
    assert "t.csv" in parsed.text
    missing = f"{100 * frame['income'].isna().mean():.1f}%"
    assert missing in parsed.text
    assert page.count('class="figure love') == 2
    assert '<script type="application/json"' in page
    assert page.count("<script") == 1  # nothing moves, so nothing runs
    columns = {one["name"]: one for one in found["columns"]}
    shop = columns["shop"]
    assert shop["bins"] == ["a", "others"]  # four people have the rare level
    for side, own in ((shop["top"], treated), (shop["rest"], ~treated)):
        assert side[0] == pytest.approx((frame["shop"][own] == "a").mean(), abs=0.005)


def test_a_page_to_hand_on_tells_nothing_of_one_person():
    frame, trial, treated = checked()
    frame = frame.fillna({"income": 0.0}).assign(
        home=np.where(np.arange(len(frame)) == 9, None, "yes")
    )
    frame.loc[frame["shop"] == "rare", "shop"] = "a"
    frame.loc[5, "shop"] = "Zed"
    trial = Trial(frame, trial.y, trial.treatment)
    report = check_randomisation(trial)
    assert any("home" in test.detail for test in report.tests if test.few)  # on one's own screen
    found = summarise_check(report, trial.summary(), frame, treated)
    check = found["randomisation"]
    assert "home" not in {one["feature"].split("=")[0] for one in check["differences"]}
    (test,) = (one for one in check["tests"] if one["name"] == "missing values" and one["few"])
    assert (test["statistic"], test["p_value"]) == (None, 1.0)
    page = render(found)
    assert "Zed" not in page
    assert not re.search(r"home: 0\.\d\d%", page)


def test_hostile_names_stay_text():
    frame, trial, treated = checked(names=HOSTILE[:3])
    found = summarise_check(
        check_randomisation(trial), trial.summary(), frame, treated, file=HOSTILE[3]
    )
    page = render(found)
    Page(page)
    for name in HOSTILE[:4]:
        assert name not in page
    assert page.count("<script") == 1
