"""Results in words, as text, HTML and JSON; the page, the card and their figures."""

from __future__ import annotations

from auucmax._optional import lazy_names

_HOME = {
    "as_json": "brief", "html": "brief", "text": "brief",
    "model_card": "card", "write_check": "page", "write_report": "page",
}  # fmt: skip
__all__ = [*_HOME]
__getattr__ = lazy_names(__name__, _HOME)
