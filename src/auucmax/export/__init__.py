"""Scores where the rows are: a fitted model as SQL, as an ONNX graph, as plain JSON."""

from __future__ import annotations

from auucmax.export.onnx_model import to_onnx
from auucmax.export.raw_formula import to_json
from auucmax.export.sql import DIALECTS, to_sql

__all__ = ["DIALECTS", "to_json", "to_onnx", "to_sql"]
