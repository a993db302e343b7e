"""Scores where the rows are: a model as SQL, dbt model, ONNX graph, Python file or plain JSON."""

from __future__ import annotations

from auucmax.export.dbt import dbt_files
from auucmax.export.dialects import DIALECTS
from auucmax.export.onnx_model import arms_to_onnx, to_onnx
from auucmax.export.python_file import arms_to_python, to_python
from auucmax.export.raw_formula import ArmScore, arms_to_json, to_json
from auucmax.export.sql import arms_to_sql, to_sql

__all__ = [
    "DIALECTS",
    "ArmScore",
    "arms_to_json",
    "arms_to_onnx",
    "arms_to_python",
    "arms_to_sql",
    "dbt_files",
    "to_json",
    "to_onnx",
    "to_python",
    "to_sql",
]
