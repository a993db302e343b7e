"""The page in a real browser: the slider by mouse and keyboard, no request, names stay text."""

import os
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.present.hostile import HOSTILE

from auucmax import make_trial
from auucmax._messages import visible
from auucmax.model import fit_trial_model, target
from auucmax.present import Economy, render, sentences, summarise, summarise_model, write_report

pytestmark = pytest.mark.gate

#: axe.min.js of the npm package axe-core, if it is at hand.
AXE = os.environ.get("AUUCMAX_AXE")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium on the path (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def urls(
    tmp_path_factory, summary, hostile_summary, arms_summary, check_summary, harm_summary,
    vague_summary,
):  # fmt: skip
    folder = tmp_path_factory.mktemp("pages")
    pages = {"plain": summary, "hostile": hostile_summary, "arms": arms_summary}
    pages |= {"check": check_summary, "harm": harm_summary, "vague": vague_summary}
    for name, numbers in pages.items():
        write_report(numbers, folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


@pytest.fixture
def open_page(browser, urls):
    """A function that opens a page; afterwards nothing may have gone wrong or left the page."""
    contexts, troubles = [], []

    def opened(name="plain", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(300_000)  # other work may slow the browser
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", lambda r: None if r.url == urls[name] else troubles.append(r.url))
        page.goto(urls[name])
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def written(value, digits):
    return f"{value:,.{digits}f}".replace("-", "\u2212")


def assert_shows(page, summary, place):
    """All numbers of the page are those of the dict at a whole per cent."""
    plan = summary["plan"]
    gain, money = plan["digits"]["gain"], plan["digits"]["money"]
    assert page.text_content("#share-value") == f"{place}%"
    assert page.text_content("#people") == written(plan["people"][place], 0)
    assert page.text_content("#cost") == written(plan["cost"][place], money) + " EUR"
    assert page.text_content("#gain") == written(plan["gain"][place], gain)
    ends = [written(plan[name][place], gain) for name in ("gain_lower", "gain_upper")]
    assert page.text_content("#gain-interval") == " to ".join(ends)
    assert page.text_content("#profit") == written(plan["profit"][place], money) + " EUR"
    ends = [written(plan[f"profit_{end}"][place], money) + " EUR" for end in ("lower", "upper")]
    assert page.text_content("#profit-interval") == " to ".join(ends)
    headline = page.locator(".headline").inner_text()
    assert f"reat the {place}% with the highest scores, " in headline
    if place:
        assert_decides(page, summary, place)


def assert_decides(page, summary, place):
    """The page says of a place what Python says of it, by the same rule."""
    found = sentences.decision_of(summary | {"headline": {"share": place / 100}})
    lead = page.locator("#lead")
    assert (lead.inner_text() if lead.is_visible() else "") == found.lead
    assert page.text_content("#verdict") == found.verdict
    start = page.locator(".headline").inner_text().partition(" the ")[0]
    assert start == ("Treat" if found.is_good else "If you treat")


def marker_place(page):
    """Where the marker stands on the curve that is seen, from 0 to 1."""
    return page.evaluate(
        """() => {
            const svg = [...document.querySelectorAll("svg.uplift")].find(
                (s) => getComputedStyle(s).display !== "none");
            const x = +svg.querySelector(".marker").getAttribute("x1");
            return (x - svg.dataset.x0) / (svg.dataset.x1 - svg.dataset.x0);
        }"""
    )


def test_the_script_writes_numbers_as_the_page_had_them(open_page, summary):
    page, without = open_page(), open_page(java_script_enabled=False)
    for part in ("dl.numbers", ".headline", ".chips", ".loss", "svg.uplift.wide"):
        assert without.locator(part).text_content() == page.locator(part).text_content()
    for part in ("model", "random", "band", "rival"):
        ways = [
            [one.get_attribute("d") for one in own.locator(f"svg.uplift path.{part}").all()]
            for own in (page, without)
        ]
        for here, there in zip(*ways, strict=True):
            places = [[float(n) for n in re.findall(r"[\d.]+", way)] for way in (here, there)]
            assert places[0] == pytest.approx(places[1], abs=0.011)
    assert "needs JavaScript" in without.locator("noscript").inner_text()
    assert_shows(open_page(), summary, 30)


def test_slider_by_mouse(open_page, summary):
    page = open_page()
    page.locator("#share").scroll_into_view_if_needed()
    box = page.locator("#share").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.3 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y)
    page.mouse.move(box["x"] + 0.7 * box["width"], y, steps=5)
    page.mouse.up()
    place = int(page.input_value("#share"))
    assert 65 <= place <= 75
    assert_shows(page, summary, place)
    assert marker_place(page) == pytest.approx(place / 100, abs=1e-3)
    assert page.input_value("#budget") == str(place * 10)


def test_slider_by_keyboard(open_page, summary):
    page = open_page()
    page.focus("#share")
    for key, place in (("ArrowRight", 31), ("ArrowLeft", 30), ("End", 100), ("Home", 0)):
        page.keyboard.press(key)
        assert_shows(page, summary, place)
        assert marker_place(page) == pytest.approx(place / 100, abs=1e-3)
    page.keyboard.press("ArrowUp")
    assert page.locator("#few").is_visible() is not summary["curve"]["reliable"][1]


def test_everything_can_be_reached_by_keyboard(open_page):
    page = open_page()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"share", "budget", "to-best", "cohort", "cost-one", "value", "currency"} <= set(reached)
    assert {"BUTTON", "SUMMARY"} <= set(reached)


def test_words_are_explained_by_pointer_and_by_keyboard(open_page):
    page = open_page()
    term = page.get_by_role("button", name="certified").first
    meaning = page.get_by_role("tooltip").first
    assert not meaning.is_visible()
    term.hover()
    assert meaning.is_visible()
    page.mouse.move(0, 0)
    assert not meaning.is_visible()
    term.focus()
    assert meaning.is_visible()
    assert term.get_attribute("aria-describedby") == meaning.get_attribute("id")
    page.keyboard.press("Escape")
    assert not meaning.is_visible()


def test_pointing_at_the_curve_tells_its_values_and_a_click_goes_there(open_page, summary):
    for options in ({"viewport": {"width": 1400, "height": 900}},
                    {"viewport": {"width": 390, "height": 900}, "has_touch": True}):  # fmt: skip
        page = open_page(**options)
        svg = page.locator("svg.uplift:visible")
        svg.scroll_into_view_if_needed()
        box, view = svg.bounding_box(), 720 if options["viewport"]["width"] == 1400 else 360
        left, right = (float(svg.get_attribute(f"data-{end}")) for end in ("x0", "x1"))
        x = box["x"] + (left + 0.62 * (right - left)) * box["width"] / view
        y = box["y"] + box["height"] / 2
        if "has_touch" in options:
            page.touchscreen.tap(x, y)
        else:
            page.mouse.move(x, y)
            profit = written(summary["plan"]["profit"][62], summary["plan"]["digits"]["money"])
            assert page.text_content("#tip").startswith(f"62%: {profit} EUR (")
            assert page.input_value("#share") == "30"
            page.mouse.click(x, y)
        assert page.input_value("#share") == "62"
        assert_shows(page, summary, 62)


def test_what_a_screen_reader_hears(open_page, summary):
    page = open_page()
    people = written(summary["plan"]["people"][31], 0)
    page.focus("#share")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#share", "aria-valuetext") == f"31% of people, {people} people"
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.text_content("#said").startswith(f"31% treated: {people} people, cost ")
    assert page.get_by_role("slider", name="Share of people treated").count() == 1
    assert page.get_by_role("slider", name="Budget").count() == 1
    assert page.get_by_role("status").count() == 1
    assert page.get_by_role("img").count() == 2  # of each picture only the one that is shown


def test_budget_moves_the_share_and_interpolates(open_page, summary):
    page, plan = open_page(), summary["plan"]
    page.focus("#budget")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.text_content("#share-value") == "30.5%"
    cost = (plan["cost"][30] + plan["cost"][31]) / 2
    assert page.text_content("#budget-value").startswith(written(cost, plan["digits"]["money"]))
    gain = (plan["gain"][30] + plan["gain"][31]) / 2
    assert page.text_content("#gain") == written(gain, plan["digits"]["gain"])
    page.keyboard.press("End")
    assert_shows(page, summary, 100)


def test_buttons_go_to_the_peaks(open_page, summary):
    page = open_page()
    page.get_by_role("button", name="Highest expected profit").click()
    assert_shows(page, summary, round(100 * summary["plan"]["best_share"]))
    page.get_by_role("button", name="Safest, highest lower end").click()
    assert_shows(page, summary, round(100 * summary["plan"]["cautious_share"]))


def test_inputs_of_the_page_are_those_of_another_summary(open_page, summary, material):
    """Other people, cost, value and currency: the page is what summarise makes of them."""
    m = material
    page = open_page()
    for cohort, cost, value in ((12_345, 0.25, 3.5), (77, 0.1, 0.05), (500_000, 1.0, 1.5)):
        economy = Economy(cohort=cohort, cost=cost, value=value, currency="EUR")
        own = summarise(m.y, m.score, treatment=m.treatment, economy=economy)
        page.fill("#cohort", str(cohort))
        page.fill("#cost-one", str(cost))
        page.fill("#value", str(value))
        for place in (30, 65, 99):
            page.fill("#share", str(place))
            plan = own["plan"]
            digits = plan["digits"]["money"]
            assert page.text_content("#people") == written(plan["people"][place], 0)
            assert page.text_content("#profit") == written(plan["profit"][place], digits) + " EUR"
            digits = plan["digits"]["gain"]
            assert page.text_content("#gain") == written(plan["gain"][place], digits)
        best = f"Highest expected profit: {100 * own['plan']['best_share']:.0f}%"
        assert page.text_content("#to-best") == best
        assert page.locator("#to-cautious").is_visible() == (own["plan"]["cautious_share"] > 0)
        assert_decides(page, own, 99)
        marks = page.locator("svg.uplift.wide text.mark").all_text_contents()
        expected = {"best": own["plan"]["best_share"], "break-even": own["plan"]["break_even"]}
        assert marks == [f"{name} {at:.0%}" for name, at in expected.items() if at]
    page.fill("#currency", "USD")
    assert page.text_content("#profit").endswith(" USD")
    assert "--cost 1 --value 1.5" in page.text_content("#command")
    page.fill("#cost-one", "")
    assert page.locator("#rate").is_visible()
    assert not page.locator("#profit").is_visible()
    assert not page.locator("#budget").is_visible()
    page.fill("#cohort", "")
    assert page.get_attribute("#cohort", "aria-invalid") == "true"
    assert page.text_content("#people") == written(0.99 * 500_000, 0)


def test_harm_follows_the_slider(open_page, harm_summary):
    """Harm, what is not shown, and what costs more than it brings: each is said where it is."""
    page, found = open_page("harm"), set()
    for place in (1, 2, 3, 5, 10, 30, 100):
        page.fill("#share", str(place))
        assert_decides(page, harm_summary, place)
        found.add(page.text_content("#verdict"))
    assert found == {"gain above zero: not shown", "shown to do harm"}
    page.fill("#share", "0")
    assert not page.locator("#lead").is_visible()
    assert not page.locator("#verdict").is_visible()
    page = open_page()
    page.fill("#share", "50")
    page.fill("#cost-one", "3.9")
    assert page.text_content("#verdict") == "shown to cost more than it brings"
    assert "choose the" in page.inner_text("#lead") or "treat nobody" in page.inner_text("#lead")
    assert page.inner_text(".headline").startswith("If you treat the 50%")


def test_without_any_interval_no_share_is_denied_a_profit(open_page, vague_summary):
    page = open_page("vague")
    for place in (1, 30, 100):
        page.fill("#share", str(place))
        assert_decides(page, vague_summary, place)
        assert page.inner_text("#lead") == "For these people a profit is not shown."
    page.fill("#cost-one", "1000")
    assert page.inner_text("#lead") == "For these people a profit is not shown."


def test_the_page_tells_what_target_tells(browser, tmp_path):
    """People, gain and profit of the slider are those of ``target`` for the people of the trial."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({c: rng.integers(0, 3, 4_000).astype(str) for c in "abc"})
    mail = rng.integers(0, 2, 4_000)
    chance = 0.2 + 0.25 * mail * (frame["a"] == "2") + 0.1 * mail * (frame["b"] == "1")
    table = frame.assign(mail=mail, visit=(rng.random(4_000) < chance).astype(int))
    model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    write_report(summarise_model(model), tmp_path / "r.html")
    page = browser.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    page.fill("#cohort", "4000")
    page.fill("#cost-one", "0.3")
    page.fill("#value", "4")
    digits = page.evaluate("document.querySelector('#profit').textContent").count(".") * 2
    for place in (20, 30, 33, 55):
        found = target(model, table, share=place / 100, cost=0.3, value=4)
        page.fill("#share", str(place))
        row = found.expected
        assert page.text_content("#people") == written(row.n_treated, 0)
        assert page.text_content("#cost") == written(row.cost, digits)
        assert page.text_content("#profit") == written(row.profit, digits)
        ends = [written(end, digits) for end in (row.profit_lower, row.profit_upper)]
        assert page.text_content("#profit-interval") == " to ".join(ends)
        assert page.text_content("#verdict") == found.decision.verdict
        # The number next to the verdict is the one it rests on.
        sure = found.decision.at_least
        assert page.locator("#profit-interval").is_visible() == (sure is None)
        assert page.locator("#least-profit").is_visible() == (sure is not None)
        if sure is not None:
            assert page.text_content("#least-profit") == written(sure, digits)
    best = target(model, table, cost=0.3, value=4)
    page.click("#to-best")
    assert page.text_content("#people") == written(best.selection.n_treated, 0)
    page.close()


def test_hostile_names_stay_text(open_page):
    page = open_page("hostile")
    page.focus("#share")
    page.keyboard.press("ArrowRight")
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.evaluate("window.hacked") is None
    text = page.evaluate("document.body.textContent")
    for name in HOSTILE[:5]:
        assert visible(name) in text
    assert page.title() == HOSTILE[0]
    assert HOSTILE[1] in page.text_content("#cost")
    page.fill("#value", "")  # no profit: the sentence is about the outcome
    page.locator("#said", has_text="changes by").wait_for(state="attached")
    assert f"people, {HOSTILE[1]} changes by" in page.text_content("#said")
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert page.locator("script").count() == 3


ATTACK = """async () => {
    const add = (tag, attributes) =>
        document.body.append(Object.assign(document.createElement(tag), attributes));
    add("img", {src: "/img"});
    add("script", {src: "/script"});
    add("script", {textContent: "window.hacked = 1"});
    add("iframe", {src: "/frame"});
    add("link", {rel: "stylesheet", href: "/css"});
    await fetch("/fetch").catch(() => 0);
    await new Promise((done) => setTimeout(done, 500));
    return window.hacked;
}"""
ATTACKED = {"/img", "/script", "/frame", "/css", "/fetch"}


def test_the_policy_forbids_every_request(browser, summary):
    """Served from a socket, and again without the policy to show that the test can fail."""
    page_text, hits = render(summary), []
    without = re.sub("<meta http-equiv=[^>]*>", "", page_text)
    bodies = {"/with": page_text, "/without": without}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            body = bodies.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    seen = {}
    context = browser.new_context()
    try:
        for path in bodies:
            page = context.new_page()
            hits.clear()
            page.goto(f"http://127.0.0.1:{server.server_port}{path}")
            hacked, patience = page.evaluate(ATTACK), 600
            while path == "/without" and not set(hits) >= ATTACKED and patience:
                page.wait_for_timeout(100)  # a busy machine asks later
                patience -= 1
            seen[path] = hacked, set(hits) - {"/favicon.ico", path}
    finally:
        context.close()
        server.shutdown()
        server.server_close()
    assert seen["/without"] == (1, ATTACKED)
    assert seen["/with"] == (None, set())


@pytest.mark.parametrize("name", ["plain", "arms"])
@pytest.mark.parametrize("width", [1100, 1280])
def test_tables_in_half_of_a_page_have_all_their_columns(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 700})
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    wide = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > "
        "one.clientWidth).map(one => one.getAttribute('aria-labelledby'))"
    )
    assert wide == []


@pytest.mark.parametrize("name", ["plain", "hostile", "arms"])
@pytest.mark.parametrize("width", [320, 375, 1000, 1400])
def test_no_page_is_wider_than_its_screen(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = "svg.narrow" if width < 640 else "svg.wide"
    assert page.locator(f"{shown}.uplift").is_visible()
    assert page.locator("svg.uplift:visible").count() == 1
    if width == 1400:  # slider and curve side by side
        slider, curve = (page.locator(one).bounding_box() for one in ("#share", "figure.curve"))
        assert slider["x"] + slider["width"] < curve["x"]
        assert curve["y"] < slider["y"] < curve["y"] + curve["height"]


def test_light_and_dark(open_page):
    colours = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(244, 246, 249)", "rgb(18, 22, 28)"]


def test_pages_without_a_script_print_their_tables_open(open_page):
    page = open_page("check")
    table = page.locator(".two details table").first
    assert not table.is_visible()
    page.emulate_media(media="print")
    assert page.locator(".two details .scroll").first.bounding_box()["height"] > 20


def test_prints_with_open_tables_on_white(open_page, tmp_path):
    page = open_page(color_scheme="dark")
    assert page.locator("details[open]").count() == 0
    page.evaluate(
        """() => window.addEventListener("beforeprint", () => {
            window.opened = document.querySelectorAll("details[open]").length;
        })"""
    )
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    assert page.evaluate("window.opened") == page.locator(".rest details").count()
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    assert not page.locator("#share").is_visible()
    assert page.locator("#gain").is_visible()
    # The decision, the curve and whom it picks fit on one sheet of A4, the rest is behind.
    page.set_viewport_size({"width": 680, "height": 1009})
    first = page.locator(".rest").bounding_box()["y"]
    assert first < 1009
    assert page.evaluate("getComputedStyle(document.querySelector('.rest')).breakBefore") == "page"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_page_of_a_million_people_is_small_and_answers_at_once(browser, tmp_path):
    trial = make_trial(1_000_000, n_features=4, random_state=0)
    table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    model = fit_trial_model(table, treatment="mail", outcome="visit", model="auucmax")
    found = summarise_model(model, economy=Economy(cohort=1_000_000, cost=0.05, value=2.0))
    write_report(found, path := tmp_path / "page.html")
    assert path.stat().st_size <= 300_000
    page = browser.new_page()
    page.goto(path.as_uri())
    # From the input to the numbers; the middle of all places, as a busy machine halts some of them.
    taken = page.evaluate(
        """() => {
            const slider = document.getElementById("share");
            const taken = [];
            for (let place = 0; place <= 100; place += 1) {
                const begin = performance.now();
                slider.value = place;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                taken.push(performance.now() - begin);
            }
            return taken;
        }"""
    )
    assert np.median(taken) < 100  # milliseconds: what people take for at once
    assert page.text_content("#people") == "1,000,000"
    page.close()


def drawn_values(page, name):
    """The heights of a line of the curve, in the unit of its axis."""
    svg = page.locator("svg.uplift:visible").first
    low, high, y0, y1 = svg.evaluate(
        "e => ['low', 'high', 'y0', 'y1'].map(name => Number(e.dataset[name]))"
    )
    path = svg.locator(name).first.get_attribute("d").strip("MZ").split("L")
    y = np.array([float(point.split()[1]) for point in path])
    return low + (high - low) * (y - y0) / (y1 - y0)


@pytest.mark.parametrize("width", [1400, 390])
def test_the_budget_moves_all_numbers_of_several_arms(open_page, arms_summary, width):
    page = open_page("arms", viewport={"width": width, "height": 900})
    plan = arms_summary["plan"]
    for place in (30, 31, 70, 100):
        page.fill("#share", str(place))
        money = [written(plan[name][place], 2) + " EUR" for name in ("cost", "spent", "profit")]
        assert [
            page.text_content(f"#{name}") for name in ("budget-value", "spent", "profit")
        ] == money
        for number in range(2):
            people = written(plan["people"][number][place], 0)
            assert page.text_content(f"#people-{number}") == people
        digits = plan["digits"]["gain"]
        assert page.text_content("#gain") == written(plan["gain"][place], digits)
        ends = [written(plan[f"gain_{end}"][place], digits) for end in ("lower", "upper")]
        assert page.text_content("#gain-interval") == " to ".join(ends)
        assert marker_place(page) == pytest.approx(place / 100, abs=0.01)
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert "people treated, profit" in page.text_content("#said")
    # One unit: the curve is of profit as the headline is, and follows what an outcome is worth.
    assert page.locator("svg.uplift .of-y").first.text_content() == "profit, EUR"
    for value, cohort in ((4.0, 20_000), ("", 500)):
        page.fill("#value", str(value))
        page.fill("#cohort", str(cohort))
        if value:
            spent = np.array(plan["spent"], dtype=float) / plan["cohort"]
            gain = np.array(arms_summary["curve"]["uplift"], dtype=float)
            expected = cohort * (value * gain - spent)
        else:
            assert page.locator("svg.uplift .of-y").first.text_content() == "gain per 100 people"
            expected = 100 * np.array(arms_summary["curve"]["uplift"], dtype=float)
        assert drawn_values(page, ".model") == pytest.approx(expected, abs=0.005 * np.ptp(expected))
        last = page.locator("svg.uplift [data-at]").last.evaluate(
            "e => [e.dataset.at, e.innerHTML]"
        )
        amount = float(last[0]) * plan["cost"][-1] / plan["cohort"] * cohort
        assert float(last[1].replace(",", "")) == pytest.approx(amount, rel=1e-3)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.skipif(AXE is None, reason="AUUCMAX_AXE names no axe.min.js (npm install axe-core)")
@pytest.mark.parametrize("name", ["plain", "hostile", "arms", "check"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_axe_finds_nothing(open_page, name, scheme, width):
    size = {"width": width, "height": 900}
    page = open_page(name, viewport=size, color_scheme=scheme, bypass_csp=True)
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
