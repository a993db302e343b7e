"""``python -m experiments.report_picture``: the first screen of the page of `auucmax demo`.

Needs Chromium and playwright.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from auucmax.cli import app

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
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        app(["demo", "--output", str(page)], standalone_mode=False)
        take(page, PICTURE)
    print(f"wrote docs/images/{PICTURE.name}")


if __name__ == "__main__":
    main()
