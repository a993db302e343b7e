"""The page in a real browser: the slider by mouse and keyboard, no request, names stay text."""

import os
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.present.hostile import HOSTILE
from tests.present.html_page import Page

from auucmax._errors import visible

pytestmark = pytest.mark.gate

#: axe.min.js of the npm package axe-core, if it is at hand.
AXE = os.environ.get("AUUCMAX_AXE")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
START = 29  #: place of 30% among points at every per cent


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium on the path (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser, page_files):
    """A function that opens a page; afterwards nothing may have gone wrong or left the page."""
    contexts, troubles = [], []

    def opened(name="plain", **options):
        url = page_files[name].as_uri()
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(300_000)  # other work may slow the browser
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", lambda r: None if r.url == url else troubles.append(r.url))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="session")
def points(pages):
    """The points of the slider of each page with one."""
    return {name: Page(page).points for name, page in pages.items() if 'id="data"' in page}


def marker(page):
    """Where the marker stands on the curve that is seen: parts of its width and height."""
    return page.evaluate(
        """() => {
            const svg = [...document.querySelectorAll("svg.curve")].find(
                (s) => getComputedStyle(s).display !== "none");
            const d = svg.dataset, dot = svg.querySelector(".marker-dot");
            return [(dot.getAttribute("cx") - d.x0) / (d.x1 - d.x0),
                    (dot.getAttribute("cy") - d.y0) / (d.y1 - d.y0)];
        }"""
    )


def assert_shows(page, own):
    """The page shows the words and the place of an embedded point."""
    assert page.text_content("#verdict") == own["verdict"]
    assert page.text_content("#label") == own["label"]
    assert page.get_attribute("#place", "aria-valuetext") == own["label"]
    assert page.text_content("#state") == own["state"]
    assert own["style"] in page.get_attribute("#state", "class")
    shown = list(
        zip(
            page.locator("#facts dt").all_text_contents(),
            page.locator("#facts dd").all_text_contents(),
            strict=True,
        )
    )
    assert shown == [tuple(fact) for fact in own["facts"]]
    assert page.locator("#next").is_visible() == bool(own["next"])
    if own["next"]:
        assert own["next"] in page.text_content("#next")
    if own["y"] is not None:
        assert marker(page) == pytest.approx([own["at"], own["y"]], abs=2e-3)


@pytest.mark.parametrize("name", ["plain", "arms", "few", "harm"])
def test_the_page_opens_as_without_a_script(open_page, points, name):
    page, without = open_page(name), open_page(name, java_script_enabled=False)
    for part in ("#verdict", "#facts", ".chips", "#label"):
        assert without.locator(part).text_content() == page.locator(part).text_content()
    assert without.locator("noscript").is_visible()
    assert_shows(page, points[name][int(page.input_value("#place"))])


def test_slider_by_keyboard(open_page, points):
    page = open_page()
    page.focus("#place")
    for key, place in (("ArrowRight", START + 1), ("ArrowLeft", START), ("End", 99), ("Home", 0)):
        page.keyboard.press(key)
        assert int(page.input_value("#place")) == place
        assert_shows(page, points["plain"][place])


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", ["arms", "harm", "few", "share"])
def test_every_page_moves_to_its_points(open_page, points, name, width):
    page = open_page(name, viewport={"width": width, "height": 900})
    for place in range(0, len(points[name]), 9):
        page.fill("#place", str(place))
        assert_shows(page, points[name][place])
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_pointing_at_the_curve_shows_its_values_and_a_click_goes_there(open_page, points):
    for options in ({"viewport": {"width": 1400, "height": 900}},
                    {"viewport": {"width": 390, "height": 900}, "has_touch": True}):  # fmt: skip
        page = open_page(**options)
        svg = page.locator("svg.curve:visible")
        svg.scroll_into_view_if_needed()
        box, view = svg.bounding_box(), 720 if options["viewport"]["width"] == 1400 else 360
        left, right = (float(svg.get_attribute(f"data-{end}")) for end in ("x0", "x1"))
        x = box["x"] + (left + 0.62 * (right - left)) * box["width"] / view
        y = box["y"] + box["height"] / 2
        own = points["plain"][61]
        if "has_touch" in options:
            page.touchscreen.tap(x, y)
        else:
            page.mouse.move(x, y)
            assert page.text_content("#tip") == f"{own['label']}: {own['value']}"
            assert page.input_value("#place") == str(START)
            page.keyboard.press("Escape")
            assert not page.locator("#tip").is_visible()
            page.mouse.click(x, y)
        assert page.input_value("#place") == "61"
        assert_shows(page, own)


def test_what_a_screen_reader_hears(open_page, points):
    page = open_page()
    page.focus("#place")
    page.keyboard.press("ArrowRight")
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.text_content("#said") == points["plain"][START + 1]["verdict"]
    assert page.get_by_role("slider").count() == 1
    assert page.get_by_role("img").count() == 2  # of each figure only the one that is shown


def test_hostile_names_stay_text(open_page):
    page = open_page("hostile")
    page.focus("#place")
    page.keyboard.press("ArrowRight")
    page.locator("#said:not(:empty)").wait_for(state="attached")
    assert page.evaluate("window.hacked") is None
    text = page.evaluate("document.body.textContent")
    for name in HOSTILE[:4]:
        assert visible(name) in text
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


def test_the_policy_forbids_every_request(browser, pages):
    """Served from a socket, and again without the policy to show that the test can fail."""
    hits = []
    without = re.sub("<meta http-equiv=[^>]*>", "", pages["plain"])
    bodies = {"/with": pages["plain"], "/without": without}

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


@pytest.mark.parametrize("name", ["plain", "hostile", "arms", "failed", "check"])
@pytest.mark.parametrize("width", [320, 390, 1000, 1400])
def test_no_page_is_wider_than_its_screen(open_page, name, width):
    page = open_page(name, viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if name not in ("failed", "check"):
        shown = "svg.narrow" if width < 640 else "svg.wide"
        assert page.locator(f"{shown}.curve").is_visible()
        assert page.locator("svg.curve:visible").count() == 1
        # The decision is not cut off.
        box = page.locator("#verdict").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        if width == 1400:  # slider and curve side by side
            slider, curve = (page.locator(one).bounding_box() for one in ("#place", "figure.curve"))
            assert slider["x"] + slider["width"] < curve["x"]


@pytest.mark.skipif(AXE is None, reason="AUUCMAX_AXE names no axe.min.js (npm install axe-core)")
@pytest.mark.parametrize("name", ["plain", "hostile", "arms", "few", "failed", "check", "unfair"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_axe_finds_nothing(open_page, name, scheme, width):
    size = {"width": width, "height": 900}
    page = open_page(name, viewport=size, color_scheme=scheme, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
