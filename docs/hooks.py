"""What the site adds to its pages: formulas as MathML, and the page of the demo.

Both are made when the site is built, so that it needs no network and no script to show them.
"""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

FORMULA = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Blocks of ``math`` (LaTeX, as GitHub shows it) as MathML, which browsers draw themselves."""
    return FORMULA.sub(lambda found: mathml(found[1].strip()), markdown)


def mathml(latex: str) -> str:
    from latex2mathml.converter import convert

    # On one line: an empty one would end the block of HTML.
    return "<p>" + " ".join(convert(latex, display="block").split()) + "</p>"


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add demo.html, to which pages link."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "demo.html", content=demo_page()))
    return files


@cache
def demo_page() -> str:
    """The page of ``auucmax demo --model tm``: seconds, where the default takes a minute."""
    import auucmax

    model = auucmax.fit(auucmax.load_hillstrom(encoding="raw"), "tm")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "demo.html"
        model.report(page, share=0.3)
        return page.read_text()
