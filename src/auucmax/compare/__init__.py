"""Many models, many splits of one trial, one tidy frame: which ranks unseen people best?"""

from __future__ import annotations

from auucmax.compare.comparison import Comparison
from auucmax.compare.run import compare

__all__ = ["Comparison", "compare"]
