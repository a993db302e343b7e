"""Compare many models on many splits of one trial."""

from __future__ import annotations

from auucmax.comparison.comparison import Comparison
from auucmax.comparison.run import compare

__all__ = ["Comparison", "compare"]
