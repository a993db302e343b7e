"""Export a model as SQL, an ONNX graph or plain JSON."""

from __future__ import annotations

from auucmax.export.dialects import DIALECTS
from auucmax.export.onnx_model import to_onnx
from auucmax.export.raw_formula import to_json
from auucmax.export.sql import to_sql

__all__ = ["DIALECTS", "to_json", "to_onnx", "to_sql"]
