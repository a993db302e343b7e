"""The page in a real browser: the slider by mouse and keyboard, no request, names stay text."""

import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.report.hostile import HOSTILE

from auucmax.report import render, write_report

pytestmark = pytest.mark.gate

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
def urls(tmp_path_factory, summary, hostile_summary, arms_summary):
    folder = tmp_path_factory.mktemp("pages")
    pages = {"plain": summary, "hostile": hostile_summary, "arms": arms_summary}
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
    assert page.text_content("#risk") == written(plan["risk"][place], 4)
    assert page.text_content("#profit") == written(plan["profit"][place], money) + " EUR"
    ends = [written(plan[f"profit_{end}"][place], money) + " EUR" for end in ("lower", "upper")]
    assert page.text_content("#profit-interval") == " to ".join(ends)


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
    with_script = open_page().locator("dl.numbers").inner_text()
    without = open_page(java_script_enabled=False)
    assert without.locator("dl.numbers").inner_text() == with_script
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
    assert {"share", "budget", "BUTTON", "SUMMARY"} <= set(reached)


def test_what_a_screen_reader_hears(open_page, summary):
    page = open_page()
    people = written(summary["plan"]["people"][31], 0)
    page.focus("#share")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#share", "aria-valuetext") == f"31% of people, {people} people"
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.text_content("#said").startswith(f"31% treated: {people} people, expected gain ")
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
    page.get_by_role("button", name="Highest lower end of profit").click()
    assert_shows(page, summary, round(100 * summary["plan"]["cautious_share"]))


def test_hostile_names_stay_text(open_page):
    page = open_page("hostile")
    page.focus("#share")
    page.keyboard.press("ArrowRight")
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.evaluate("window.hacked") is None
    text = page.evaluate("document.body.textContent")
    for name in HOSTILE[:5]:
        assert name in text
    assert page.title() == f"Whom to treat: {HOSTILE[0]}"
    assert HOSTILE[1] in page.text_content("#cost")
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert page.locator("script").count() == 2


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


@pytest.mark.parametrize("name", ["plain", "hostile"])
@pytest.mark.parametrize("width", [320, 375, 1000])
def test_no_page_is_wider_than_its_screen(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = "svg.narrow" if width < 640 else "svg.wide"
    assert page.locator(f"{shown}.uplift").is_visible()
    assert page.locator("svg.uplift:visible").count() == 1


def test_light_and_dark(open_page):
    colours = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(244, 246, 249)", "rgb(18, 22, 28)"]


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
    assert page.evaluate("window.opened") == page.locator("details").count()
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    assert not page.locator("#share").is_visible()
    assert page.locator("#gain").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


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
    assert "people treated, expected gain" in page.text_content("#said")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
