"""The page of a check: arms, balance, missing values and columns, and nothing about one person."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.present.html_page import Page

from auucmax import Trial
from auucmax.model.check import check_trial
from auucmax.present.page import write_check


def checked(n=2_000, *, broken=False):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "shop": rng.choice(["a", "b", "rare"], n, p=[0.6, 0.398, 0.002]),
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2, size=n)),
        }
    )
    treated = rng.random(n) < (0.5 + 0.3 * broken * (frame["age"] > 0))
    return frame, (rng.random(n) < 0.3).astype(float), treated.astype(int)


def page_of(frame, y, treated, tmp_path, **options):
    path = tmp_path / "check.html"
    found = check_trial(Trial(frame, y, treated))
    write_check(found, path, **options)
    return found, path.read_text(encoding="utf-8")


@pytest.mark.parametrize("broken", [False, True])
def test_arms_balance_missing_values_and_columns(broken, tmp_path):
    frame, y, treated = checked(broken=broken)
    found, page = page_of(frame, y, treated, tmp_path, file="t.csv")
    parsed = Page(page)
    assert found.failed == broken
    assert ("check fails" in parsed.text) == broken
    assert "t.csv" in parsed.text
    missing = [f"{frame['income'][treated == arm].isna().mean():.0%}" for arm in (1, 0)]
    assert re.search(rf"income \| .* \| {missing[0]} \| {missing[1]}", parsed.text)
    assert page.count('id="t-balance-1"') == 1
    assert page.count("<script") == 0  # nothing moves, so nothing runs
    (levels,) = re.findall(r">shop</figcaption>(.*?)</figure>", page, re.DOTALL)
    names = re.findall(r'title="([^"]*)"', levels)
    assert names == ["a", "others"]  # four people have the rare level
    shares = re.findall(r"(\d+)% <span class=\"muted\">(\d+)%", levels)
    for number, arm in enumerate((1, 0)):
        share = (frame["shop"][treated == arm] == "a").mean()
        assert int(shares[0][number]) / 100 == pytest.approx(share, abs=0.006)


def test_a_page_says_nothing_about_one_person(tmp_path):
    frame, y, treated = checked()
    frame = frame.fillna({"income": 0.0}).assign(
        home=np.where(np.arange(len(frame)) == 9, None, "yes")
    )
    frame.loc[frame["shop"] == "rare", "shop"] = "a"
    frame.loc[5, "shop"] = "Zed"
    found, page = page_of(frame, y, treated, tmp_path)
    assert any("home" in test.detail for test in found.arms[0].report.tests if test.few)
    assert "Zed" not in page
    assert "home" not in page
    assert not re.search(r"home: 0\.\d\d%", page)
