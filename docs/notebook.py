"""The tour, and some pages of the guide, as notebooks: ``python docs/notebook.py``.

The pages are the source, and tests run them; a notebook only has to be opened.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
#: The pages of each notebook, one after the other.
BOOKS = {
    "tour": ["tour"],
    "several_treatments": ["guide/arms"],
    "money": ["guide/money"],
    "households": ["guide/households"],
    "whom_to_treat": ["guide/targeting"],
}
#: Code, and what it prints if a block of text follows.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def cells(page: str, folder: str) -> list[dict[str, Any]]:
    """Text and code cells of a page in turn; links are relative to its folder of the docs.

    >>> page = "# Title\\n\\n```python\\n1\\n```\\n\\nEnd.\\n"
    >>> [cell["cell_type"] for cell in cells(page, "guide")]
    ['markdown', 'code', 'markdown']
    """
    found: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(page):
        found += _words(page[end : block.start()], folder)
        printed = {"output_type": "stream", "name": "stdout", "text": _lines(block[2] or "")}
        outputs = [printed] if block[2] else []
        code = {"source": _lines(block[1].rstrip()), "outputs": outputs, "execution_count": None}
        found.append({"cell_type": "code", "metadata": {}, **code})
        end = block.end()
    return found + _words(page[end:], folder)


def notebook(name: str) -> str:
    """The text of a notebook: all of its pages, one after the other."""
    pages = [(page.rpartition("/")[0], (DOCS / f"{page}.md").read_text()) for page in BOOKS[name]]
    numbered = enumerate(cell for folder, page in pages for cell in cells(page, folder))
    named = [{"id": f"cell-{number}", **cell} for number, cell in numbered]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": named, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _words(text: str, folder: str) -> list[dict[str, Any]]:
    # Addresses of the pages are relative to their folder; the notebook lies in examples.
    own = f"../docs/{folder}/" if folder else "../docs/"
    text = re.sub(r"\]\((?!https?:|\.\./|#)", f"]({own}", text.strip())
    text = re.sub(r"\]\(\.\./(?!docs/)", "](../docs/", text)
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(text)}] if text else []


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    for own in BOOKS:
        (EXAMPLES / f"{own}.ipynb").write_text(notebook(own))
        print(f"wrote examples/{own}.ipynb")
