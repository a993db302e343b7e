"""Present results as text, HTML and JSON, reports and model cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.present.brief import as_json, html, text
    from auucmax.present.page import model_card, write_check, write_report

_HOME = {
    "as_json": "brief", "html": "brief", "text": "brief",
    "model_card": "page", "write_check": "page", "write_report": "page",
}  # fmt: skip
__all__ = ["as_json", "html", "model_card", "text", "write_check", "write_report"]
__getattr__ = lazy_names(__name__, _HOME)
