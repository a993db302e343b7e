"""The report: its decisions are those of the rule, nothing is loaded, names stay names."""

import base64
import hashlib
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from tests.present.cases import model, table
from tests.present.conftest import compared
from tests.present.hostile import HOSTILE
from tests.present.html_page import Page

from auucmax._errors import visible
from auucmax.model.chosen import target
from auucmax.present.brief import brief
from auucmax.present.figures import slider
from auucmax.present.page import shown, write_report
from auucmax.results import Brief, State, Terms
from auucmax.targeting.rule import decide

CASES = {
    "plain": ("works", Terms(share=0.3, cost=(0.15,), value=1.0), 20_000),
    "share": ("works", Terms(share=0.3), 10_000),
    "arms": ("arms", Terms(cost=(1.0, 2.0), value=9.0), 5_000),
    "harm": ("harm", Terms(share=0.3), 10_000),
    "few": ("few", Terms(share=0.3), 10_000),
}


def slider_of(name):
    kind, terms, n = CASES[name]
    return slider(model(kind).evidence, terms, n, "EUR" if terms.has_profit else "")


@pytest.mark.parametrize("name", CASES)
def test_every_point_is_a_decision_of_the_rule(pages, name):
    kind, terms, n = CASES[name]
    evidence, found = model(kind).evidence, slider_of(name)
    assert found.first.decision == decide(evidence, terms, n)
    points = Page(pages[name]).points
    assert len(points) == len(found.points) in (100, 101)
    assert [own["at"] for own in points] == sorted(own["at"] for own in points)
    for own, point in list(zip(points, found.points, strict=True))[::7]:
        plan = point.plan
        asked = plan.terms
        if name != "arms":
            asked = replace(terms, share=sum(plan.counts) / n, budget=None)
            assert own["share"] == pytest.approx(asked.share)
        expected = decide(evidence, asked, n, plan=plan)
        assert (expected.state, expected.plan) == (point.decision.state, plan)
        assert own["verdict"] == shown(brief(point.decision).verdict)
        assert (own["y"] is None) == (plan.gain is None)


@pytest.mark.parametrize("name", CASES)
def test_the_page_opens_with_the_decision_that_was_asked_for(pages, name):
    parsed, found = Page(pages[name]), slider_of(name)
    (slide,) = [a for tag, a in parsed.elements if tag == "input"]
    assert int(slide["value"]) == found.start
    assert int(slide["max"]) == len(found.points) - 1
    assert shown(found.first.words.verdict) in parsed.text


def test_heights_are_profits_or_gains():
    for name in ("plain", "share", "arms"):
        found = slider_of(name)
        n = CASES[name][2]
        for own in found.points[::11]:
            profit = own.plan.profit
            expected = profit or own.plan.gain
            if expected is None:  # too few rows above this cut
                assert own.y is None
                continue
            factor = 1.0 if profit else 100 / n
            for end in ("value", "lower", "upper"):
                height = getattr(expected, end)
                assert getattr(own.y, end) == (height and pytest.approx(factor * height))


def test_the_page_expects_what_a_list_expects(tmp_path):
    """People, cost and profit are those of ``target`` for the people of the trial."""
    data = table()
    for share in (0.2, 0.33, 0.55):
        terms = {"share": share, "cost": 0.15, "value": 1.0}
        plan = write_report(model("works"), tmp_path / "r.html", n_people=6_000, **terms).plan
        own = target(model("works"), data, **terms).plan
        # Tied scores are broken in a list.
        assert plan.counts == own.counts
        assert plan.spend == pytest.approx(own.spend)
        assert plan.profit.value == pytest.approx(own.profit.value, rel=0.05)


def test_costs_of_other_ratios_are_not_judged(tmp_path):
    found = slider(model("arms").evidence, Terms(cost=(1.0, 1.0), value=9.0), 5_000, "")
    assert len(found.points) == 1
    assert found.first.decision.state == State.UNKNOWN
    write_report(model("arms"), tmp_path / "r.html", cost=[1, 1], value=9)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert not [tag for tag, _ in page.elements if tag == "input"]


def test_a_share_of_several_arms_with_costs_is_a_budget(tmp_path):
    evidence = model("arms").evidence
    for share in (None, 0.2, 0.5):
        decision = write_report(model("arms"), tmp_path / "r.html", share=share)
        assert decision.plan.terms.share is None
        assert sum(decision.plan.counts) == pytest.approx((share or 0.3) * 10_000, abs=10)
        assert decision == decide(evidence, decision.plan.terms, 10_000)
        assert decision.state != State.UNKNOWN


def test_the_panel_about_people_follows_the_decision(tmp_path):
    for share, shown_share in ((0.12, 0.1), (0.3, 0.3), (0.97, 0.9)):
        write_report(model("works"), tmp_path / "r.html", share=share)
        elements = Page((tmp_path / "r.html").read_text(encoding="utf-8")).elements
        panels = [a for tag, a in elements if tag == "section" and "data-share" in a]
        assert len(panels) == 9
        (own,) = [float(a["data-share"]) for a in panels if "hidden" not in a]
        assert own == pytest.approx(shown_share)


def test_a_failed_check_has_no_decision(pages):
    parsed = Page(pages["failed"])
    assert "fails its check" in parsed.text.split("\n")[2]
    assert not [tag for tag, _ in parsed.elements if tag in ("script", "input")]
    assert write_report.__annotations__["return"] == "Decision | None"


def test_other_evidence_and_a_campaign(tmp_path):
    came = Brief(verdict="It brought <b>less</b>.", facts=(("Gain", "3"),))
    path = tmp_path / "r.html"
    write_report(model("works"), path, share=0.3, evidence=compared(), campaign=came)
    text = Page(path.read_text(encoding="utf-8")).text
    assert "It brought <b>less</b>." in text
    assert "Compared with other rankings" in text


@pytest.mark.parametrize("name", ["plain", "arms", "failed", "few", "check", "unfair"])
def test_html_matches_ids_are_single_and_references_lead_somewhere(pages, name):
    elements = Page(pages[name]).elements
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in elements:
        for reference in ("for", "aria-labelledby"):
            assert reference not in attrs or attrs[reference] in ids
    for tag, attrs in elements:
        if tag == "input":
            assert any(a.get("for") == attrs["id"] for t, a in elements if t == "label")


@pytest.mark.parametrize("name", ["plain", "check"])
def test_nothing_is_loaded_and_the_policy_admits_only_the_own_script(pages, name):
    parsed = Page(pages[name])
    for _, attrs in parsed.elements:
        assert not {"src", "href", "style", "action", "srcset"} & set(attrs)
        assert not [own for own in attrs if own.startswith("on")]
    assert "url(" not in parsed.inside["style"]
    assert "@import" not in parsed.inside["style"]
    policy = next(a["content"] for t, a in parsed.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    for part in ("style", "script"):
        allowed = "'none'"
        if part in parsed.inside:
            digest = hashlib.sha256(parsed.inside[part].encode()).digest()
            allowed = f"'sha256-{base64.b64encode(digest).decode()}'"
        assert f"{part}-src {allowed};" in policy
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(("name", "plain"), [("hostile", "plain"), ("hostile_check", "check")])
def test_hostile_names_stay_text(pages, name, plain):
    page = pages[name]
    parsed = Page(page)
    assert {tag for tag, _ in parsed.elements} <= {tag for tag, _ in Page(pages[plain]).elements}
    assert page.count("<script") == pages[plain].count("<script") == page.count("</script")
    for own in HOSTILE[:4]:
        assert visible(own) in parsed.text.replace("\n", " ")
    assert not set("\x00\x1b\u2028\u202e") & set(page)
    assert "W" * 200 not in page
    data = parsed.inside.get("scriptdata", "")
    assert not re.search(r"\\u(?:00[01]|202[89a-e]|206)", data)
    assert not set("<>&") & set(data)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"n_people": 0}, "n_people"),
        ({"cost": -1.0, "value": 1.0}, "cost"),
        ({"share": 2}, "share"),
    ],
)
def test_the_file_is_whole_or_old(tmp_path, options, parameter):
    path = tmp_path / "page.html"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ValueError, match=parameter):
        write_report(model("works"), path, **options)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast_is_aa(scheme):
    css = files("auucmax.present").joinpath("page.css").read_text()
    block = css.split(":root {")[scheme + 1].split("}")[0]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))
    for name in ("text", "muted", "accent", "ok", "caution", "problem"):
        assert contrast(colours[name], colours["card"]) >= 4.5, name
    for name in ("text", "muted"):
        assert contrast(colours[name], colours["page"]) >= 4.5, name
    for name in ("accent", "muted", "text", "c0", "c1", "c2", "c3", "c4"):
        for ground in ("card", "band"):  # lines, dots and marks: 3 to 1
            assert contrast(colours[name], colours[ground]) >= 3, (name, ground)
