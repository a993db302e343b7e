"""The page to show: one dictionary of all numbers, and one HTML file, or card, made from it."""

from __future__ import annotations

from auucmax.present.arms import summarise_arms
from auucmax.present.card import model_card
from auucmax.present.check import summarise_check
from auucmax.present.page import render, write_report
from auucmax.present.summary import VERSION, Economy, Names, summarise, summarise_model

__all__ = [
    "VERSION",
    "Economy",
    "Names",
    "model_card",
    "render",
    "summarise",
    "summarise_arms",
    "summarise_check",
    "summarise_model",
    "write_report",
]
