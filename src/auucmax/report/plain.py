"""Names and numbers as the page shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from auucmax._json import short


def short_list(names: Iterable[object], most: int = 5) -> str:
    """Names in one line, the first few of them.

    >>> short_list(["a", "b", "c"], most=2)
    '"a", "b" and 1 more'
    """
    texts = [f'"{short(name)}"' for name in names]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""


def digits_for(error: float | None) -> int:
    """Decimals that show two significant digits of a standard error; 0 to 6.

    >>> digits_for(0.32), digits_for(45.0), digits_for(None)
    (2, 0, 2)
    """
    if error is None or not math.isfinite(error) or error <= 0:
        return 2
    return int(min(max(1 - math.floor(math.log10(error)), 0), 6))
