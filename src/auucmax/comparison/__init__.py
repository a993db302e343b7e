"""Many models, many splits of one trial, one tidy frame: which ranks unseen people best?"""

from __future__ import annotations

from auucmax.comparison.comparison import Comparison
from auucmax.comparison.run import compare

__all__ = ["Comparison", "compare"]
