"""The chapters of the tutorial as one notebook: ``python docs/notebook.py``.

The chapters are the source, and tests run them; the notebook only has to be opened.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
NOTEBOOK = DOCS.parent / "examples" / "tutorial.ipynb"
CHAPTERS = ("trial", "ranking", "certainty", "list", "campaign")
#: Code, and what it prints if a block of text follows.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def cells(page: str) -> list[dict[str, Any]]:
    """Words and code of a page in turn; pictures and links are those of the docs folder.

    >>> [cell["cell_type"] for cell in cells("# Title\\n\\n```python\\n1\\n```\\n\\nEnd.\\n")]
    ['markdown', 'code', 'markdown']
    """
    found: list[dict[str, Any]] = []
    end = 0
    for block in BLOCK.finditer(page):
        found += _words(page[end : block.start()])
        printed = {"output_type": "stream", "name": "stdout", "text": _lines(block[2] or "")}
        outputs = [printed] if block[2] else []
        code = {"source": _lines(block[1].rstrip()), "outputs": outputs, "execution_count": None}
        found.append({"cell_type": "code", "metadata": {}, **code})
        end = block.end()
    return found + _words(page[end:])


def notebook() -> str:
    """The text of the file: all chapters, one after the other."""
    pages = [(DOCS / "tutorial" / f"{name}.md").read_text() for name in CHAPTERS]
    numbered = enumerate(cell for page in pages for cell in cells(page))
    named = [{"id": f"cell-{number}", **cell} for number, cell in numbered]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"cells": named, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _words(text: str) -> list[dict[str, Any]]:
    # Addresses of the pages are relative to the tutorial; the notebook lies in examples.
    text = re.sub(r"\]\((?!https?:|\.\./)", "](../docs/tutorial/", text.strip())
    text = re.sub(r"\]\(\.\./(?!docs/)", "](../docs/", text)
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(text)}] if text else []


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook())
    print(f"wrote {NOTEBOOK.relative_to(DOCS.parent)}")
