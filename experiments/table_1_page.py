"""The section of docs/results.md for table-1."""
from __future__ import annotations
from experiments.harness import Line
def render(lines: list[Line]) -> str:
    return ""
