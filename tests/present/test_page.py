import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from tests.present.hostile import HOSTILE

from auucmax import make_trial
from auucmax._messages import visible
from auucmax.model import fit_trial_model
from auucmax.present import Economy, render, summarise, summarise_model, write_report
from auucmax.present.page import embedded_json
from auucmax.present.sentences import headline_sentence, segment_lines, verdicts_of
from auucmax.present.summary import _with_sentences

VOID = {"meta", "input", "br", "link", "img", "hr"}
SELF_CLOSED = {"line", "circle", "path", "rect"}


class Page(HTMLParser):
    """Elements with their attributes, and the text of the page; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.inside = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in SELF_CLOSED
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.inside[self.open[-1] + self.elements[-1][1].get("id", "")] = data
        else:
            self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


@pytest.fixture(scope="module")
def page(summary):
    return render(summary)


def test_sections_come_in_order(page):
    titles = re.findall(r"<h2 id=\"[\w-]+\">([^<]+)</h2>", page)
    assert titles == [
        "Who are the top 30%?",
        "What these data cannot support",
        "Did the trial work?",
        "How good is the ranking?",
        "Against other rankings",
        "Tenths of the people: predicted against actual",
        "What drives the score",
        "What the certificate says and assumes",
        "Words",
    ]


def test_the_first_screen_speaks_the_words_of_its_reader(page):
    first = Page(page.split("<details>")[0] + "</section></main></body></html>").text
    for word in ("policy risk", "block betting", "judged on", "AUUC"):
        assert word not in first.replace("AUUC-max", "")
    assert "<title>Who should get e-mail? Effect on visit</title>" in page
    assert "profit above zero: shown" in first  # there is no certificate of shares here
    assert "better than random choice: certified" in first


def test_segments_and_people_are_told_and_few_people_are_not(summary):
    effect = {"estimate": 0.0712, "lower": 0.05, "upper": 0.09, "declined": None}
    segments = [
        {"rule": ["recency up to 3", "not Phone"], "rows": 900, "share": 0.3, "effect": effect,
         "certified": 0.02},
        {"rule": ["recency over 3"], "rows": 900, "share": 0.3, "certified": -0.01,
         "effect": effect | {"lower": None, "upper": None, "declined": "few"}},
    ]  # fmt: skip
    column = {"name": "zip", "bins": ["a", "b"], "top": [None, 1.0], "rest": [0.25, 0.75],
              "distance": 0.4}  # fmt: skip
    people = {"share": 0.3, "n_columns": 1, "columns": [column]}
    text = Page(render(summary | {"segments": segments, "people": people})).text
    assert "recency up to 3 and not Phone" in text
    assert segment_lines(summary | {"segments": segments}) == {
        "recency up to 3 and not Phone": "+7.12 visit per 100 treated (5.00 to 9.00), certified at "
        "least 2.00",
        "recency over 3": "+7.12 visit per 100 treated (no interval: too few rows), not certified "
        "to be above zero",
    }
    assert "All 2 intervals hold together at 95%, all certified numbers with prob" in text
    assert "by columns are not told apart" not in text
    none = Page(render(summary | {"segments": [], "people": people})).text
    assert "groups by columns are not told apart" in none
    assert "+7.12 visit per 100 treated (5.00 to 9.00), certified at least 2.00" in text
    assert "no interval: too few rows), not certified to be above zero" in text
    assert "few 25%" in text
    assert "100% 75%" in text
    harm = [one | {"effect": one["effect"] | {"lower": -0.2, "upper": -0.1}, "certified": -0.3}
            for one in segments]  # fmt: skip
    assert "shown to be harmed" in segment_lines(summary | {"segments": harm})["recency over 3"]
    text = Page(render(summary | {"segments": harm})).text
    assert "shown to be harmed" in text
    assert "not certified to be above zero" not in text


def test_a_profit_at_no_share_is_said_first(material):
    m = material
    found = {}
    for value in (0.01, 0.9, 9.0):
        money = Economy(cost=0.1, value=value)
        found[value] = summarise(m.y, m.score, treatment=m.treatment, economy=money)
    texts = {value: one["headline"]["text"] for value, one in found.items()}
    loss = "Treating these people is shown to cost more than it brings: treat nobody."
    assert texts[0.01].startswith(f"{loss} If you treat the 30%")
    assert texts[9.0].startswith("Treat the ")
    shown = {
        value: re.sub("<[^>]*hidden>.*?</(p|span)>", "", render(s)) for value, s in found.items()
    }
    assert f">{loss}</p>" in shown[0.01]
    assert "treat nobody.</p>" not in shown[9.0]
    for value, words in ((0.01, "If you treat"), (9.0, "Treat")):
        headline = re.search(r'<p class="headline">(.*?)</p>', shown[value]).group(1)
        assert re.sub("<[^>]*>", "", headline).startswith(f"{words} the ")


def test_what_pays_perhaps_is_no_advice(summary):
    """Some share has a profit, but none beyond doubt."""
    plan = summary["plan"] | {"profit_lower": [-1.0] * 101, "profit_upper": [9e9] * 101}
    text = headline_sentence(summary | {"plan": plan})
    assert text.startswith(
        "At no share is the profit above zero beyond doubt. If you treat the 30%"
    )


def test_harm_is_said_first(harm_summary):
    """Treatment lowers the outcome of everybody."""
    lead = "Treating these people is shown to do harm: treat nobody."
    assert harm_summary["headline"]["text"].startswith(f"{lead} If you treat the 30%")
    parsed = Page(render(harm_summary))
    assert parsed.text.index(lead) < parsed.text.index("If you")
    assert '<span class="chip problem" id="verdict">shown to do harm</span>' in render(harm_summary)
    headline = re.search(r'<p class="headline">(.*?)</p>', render(harm_summary)).group(1)
    assert re.sub("<[^>]*>", "", re.sub("<[^>]*hidden>.*?</span>", "", headline)).startswith("If ")
    problems = [one["text"] for one in harm_summary["caveats"] if one["severity"] == "problem"]
    assert any("On average the treatment does harm" in text for text in problems)


def test_an_interval_that_holds_zero_promises_nothing(material):
    m, n = material, 300
    found = summarise(m.y[:n], m.rivals["random"][:n], treatment=m.treatment[:n], share=0.1)
    head = found["headline"]
    assert head["lower"] is None or head["lower"] < 0 < head["upper"]
    assert "If you treat the 10%" in head["text"]
    assert not head["text"].startswith(("If", "Treat the"))


def test_a_page_without_a_decision_does_not_end_its_first_sheet(summary):
    assert '<div class="rest">' in render(summary)
    failed = summary | {"failed_check": "no trial", "banner": "no trial"}
    assert '<div class="rest alone">' in render(failed)


def test_the_chip_and_the_certificate_agree(summary):
    certificate = summary["certificate"] | {"gain_lower_bound": -0.1}
    found = summary | {"certificate": certificate}
    found["verdicts"] = verdicts_of(found)
    page = html.unescape(re.sub("<[^>]*>", "", render(found)))
    assert "better than random choice: shown by the 95% interval" in page
    assert (
        "It is not guaranteed that the ranking beats random choice on average over all shares. "
        "Its interval, an approximation for many people, is above zero." in page
    )
    assert "does not show that the ranking" not in page


@pytest.mark.parametrize("money", [False, True])
def test_next_to_the_verdict_stands_the_number_that_it_rests_on(material, money):
    economy = Economy(cohort=1000, cost=0.01, value=1.0) if money else None
    found = summarise(
        material.y, material.score, treatment=material.treatment, share=0.3, economy=economy
    )
    assert "95% interval" in found["headline"]["text"]
    assert found["decision"]["at_least"] is None
    sure = {"share": [0.1, 0.3], "gain_lower": [0.01, 0.02], "share_upper": [0.12, 0.32],
            "delta": 0.05, "text": "Proven."}  # fmt: skip
    found["certified_shares"] = sure
    found = _with_sentences(found)
    assert found["decision"]["state"] == "certified"
    least = 0.02 if not money else 0.02 - 0.01 * 0.32
    assert found["decision"]["at_least"] == pytest.approx(least)
    assert "guaranteed: at least" in found["headline"]["text"]
    assert "interval" not in found["headline"]["text"]
    page = render(found)
    assert '<span data-basis="interval" hidden>' in page
    assert '<span data-basis="certified">' in page
    # The cut of 30% says nothing about the top 20%.
    found["headline"]["share"] = 0.2
    found = _with_sentences(found)
    assert found["decision"]["state"] != "certified"
    assert "guaranteed" not in found["headline"]["text"]
    assert '<span data-basis="certified" hidden>' in render(found)


def test_dates_are_told_as_dates(material):
    m = material
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(m.score.argsort().argsort() % 600, "D")
    found = summarise(m.y, m.score, treatment=m.treatment, features=pd.DataFrame({"since": days}))
    (row,) = found["drivers"]["features"]
    assert row["is_date"]
    told = np.datetime64("1970-01-01") + np.timedelta64(round(row["top"]), "D")
    page = render(found)
    assert f'<td class="day">{told}</td>' in page
    (first, *_) = found["people"]["columns"][0]["bins"]
    unbroken = first.replace("-", "\u2011")
    assert f'<span title="{first}">{unbroken}</span>' in page


@pytest.mark.gate
def test_a_treatment_of_yes_and_no_is_called_by_its_column():
    trial = make_trial(1_500, base_rate=0.4, random_state=0)
    table = trial.X.assign(visit=trial.y, letter=np.where(trial.treatment, "yes", "no"))
    model = fit_trial_model(table, treatment="letter", outcome="visit", model="tm")
    page = render(summarise_model(model))
    assert "<title>Who should get letter? Effect on visit</title>" in page
    assert "letter = yes against letter = no" in page


def test_html_matches_ids_are_single_and_references_lead_somewhere(page):
    elements = Page(page).elements
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in elements:
        for name in ("for", "aria-labelledby"):
            assert name not in attrs or attrs[name] in ids
    for tag, attrs in elements:
        if tag == "input":
            assert any(a.get("for") == attrs["id"] for t, a in elements if t == "label")
    assert any(attrs.get("aria-live") == "polite" for _, attrs in elements)


def test_nothing_is_loaded_and_the_policy_admits_only_the_own_script(page):
    parsed = Page(page)
    for _, attrs in parsed.elements:
        assert not {"src", "href", "style", "action", "srcset"} & set(attrs)
        assert not [name for name in attrs if name.startswith("on")]
    assert "url(" not in parsed.inside["style"]
    assert "@import" not in parsed.inside["style"]
    policy = next(a["content"] for t, a in parsed.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    for part in ("style", "script"):
        digest = hashlib.sha256(parsed.inside[part].encode()).digest()
        assert f"{part}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy


def test_sizes(page, hostile_summary):
    assert len(page.encode()) < 200_000
    assert len(render(hostile_summary).encode()) < 200_000
    assert len(files("auucmax.present").joinpath("page.js").read_bytes()) < 20_700


def test_embedded_json_is_the_summary(summary, page):
    assert json.loads(Page(page).inside["scriptnumbers"]) == summary


def test_a_saved_summary_gives_the_same_page(summary, page):
    assert render(json.loads(json.dumps(summary))) == page


def test_numbers_at_the_start_are_those_of_the_dict(summary, page):
    plan = summary["plan"]
    page = re.sub(r' data-(list|form)="[^"]*"', "", page)
    assert f'id="people">{plan["people"][30]:,}<' in page
    assert f'id="gain">{plan["gain"][30]:,.{plan["digits"]["gain"]}f}<' in page
    assert f'id="profit">{plan["profit"][30]:,.0f} EUR<' in page
    for text in (summary["headline"]["part"], summary["certificate"]["text"]):
        assert text in Page(page).text


def test_hostile_names_stay_text(hostile_summary, page):
    hostile = render(hostile_summary)
    parsed = Page(hostile)
    tags = {tag for tag, _ in Page(page).elements}
    assert {tag for tag, _ in parsed.elements} <= tags
    assert hostile.count("<script") == 3
    assert hostile.count("</script") == 3
    for name in HOSTILE:
        assert visible(name) in parsed.text
    assert not set("\x00\x1b\u2028\u202e") & set(hostile)
    assert not re.search(r"\\u(?:00[01]|202[89a-e]|206)", parsed.inside["scriptnumbers"])
    assert "\N{REPLACEMENT CHARACTER}" not in page
    says = [own[name] for _, own in parsed.elements for name in own if name.startswith("data-say")]
    assert says
    assert not any("EUR" in say for say in says)  # the script would take its braces for its own
    data = embedded_json(hostile_summary)
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data) == hostile_summary


def test_pages_without_the_optional_parts(material):
    text = render(summarise(material.y, material.score, treatment=material.treatment))
    parsed = Page(text)
    assert '<div data-when="can spend" hidden>' in text
    assert '<span data-when="profit" hidden>' in text
    assert "What drives the score" not in text
    assert "Not computed: all intervals are approximations" in parsed.text
    assert "trial: not checked" in parsed.text
    real = render(summarise(material.y * 3.5, material.score, treatment=material.treatment))
    assert "policy risk" in text
    assert "policy risk" not in real


@pytest.mark.quick_cases("1500")
@pytest.mark.filterwarnings("ignore::UserWarning")  # few rows
@pytest.mark.parametrize(
    ("n_rows", "hold_out", "title", "part"),
    [
        (1_500, 0, "Tenths of the people", "tenth"),
        (300, 0, r"\d equal parts of the people", "part"),
        (450, 0.4, r"\d equal parts of the people", "part"),
    ],
)
def test_a_page_from_the_model_alone(n_rows, hold_out, title, part):
    trial = make_trial(n_rows, base_rate=0.4, random_state=0)
    table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm", hold_out=hold_out)
    text = render(summarise_model(model))
    Page(text)
    assert re.search(f">{title}: predicted against actual</h2>", text)
    assert f'<th scope="col">{part}</th>' in text
    assert f">{part} of the people, highest score first<" in text
    assert f"{model.evidence['rows']['n_rows']:,} people of a trial, ranked on 20" in text
    assert "Who should get mail? Effect on visit" in text
    assert ("held-out" in text) == (hold_out > 0)  # in the words of the certificate
    assert ("The model that is kept learnt from all of them." in text) == (hold_out == 0)
    assert ("this model has not seen them" in text) == (hold_out > 0)


def test_other_dictionaries_are_refused(summary):
    for other in ({}, {**summary, "version": 99}):
        with pytest.raises(ValueError, match=r"summary should come from auucmax\.present"):
            render(other)


def test_the_file_is_whole_or_old(summary, page, tmp_path):
    target = tmp_path / "page.html"
    write_report(summary, target)
    assert target.read_text(encoding="utf-8") == page
    with pytest.raises(ValueError, match="summary should come"):
        write_report({}, target)
    assert target.read_text(encoding="utf-8") == page
    assert list(tmp_path.iterdir()) == [target]


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
    for name in ("accent", "muted", "text", "r0", "r1", "r2", "r3", "r4"):
        for ground in ("card", "band"):  # lines, dots and marks: 3 to 1
            assert contrast(colours[name], colours[ground]) >= 3, (name, ground)
