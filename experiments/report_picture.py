"""``python -m experiments.report_picture``: the first screen of the page, for the docs.

Hillstrom's trial, as `auucmax demo` fits it; an e-mail costs half a dollar and a visit is worth 12.
Needs Chromium and playwright.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import auucmax
from auucmax.present.page import write_report

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "report.png"
SIZE = {"width": 1280, "height": 1400}


def take(page: Path, picture: Path, part: str = "section.hero") -> None:
    """A picture of a part of a page, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        shown = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        shown.goto(page.as_uri())
        shown.locator(part).screenshot(path=picture)
        browser.close()


def main() -> None:
    trial = auucmax.load_hillstrom(encoding="raw")
    table = trial.X.assign(mail=trial.treatment != trial.control, visit=trial.y)
    model = auucmax.fit(auucmax.read_trial(table, treatment="mail", outcome="visit"))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(model, page, cost=0.5, value=12.0, currency="USD")
        take(page, PICTURE)
    print(f"wrote docs/images/{PICTURE.name}")


if __name__ == "__main__":
    main()
