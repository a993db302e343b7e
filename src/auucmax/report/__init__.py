"""The page to show: one dictionary of all numbers, and one HTML file made from it.

>>> from auucmax import load_hillstrom
>>> from auucmax.report import render, summarise
>>> trial = load_hillstrom()
>>> page = render(summarise(trial.y, trial.X["womens"], treatment=trial.treatment))
>>> page.startswith("<!doctype html>")
True
"""

from __future__ import annotations

from auucmax.report.page import render, write_report
from auucmax.report.summary import VERSION, Economy, Names, summarise, summarise_model

__all__ = ["VERSION", "Economy", "Names", "render", "summarise", "summarise_model", "write_report"]
