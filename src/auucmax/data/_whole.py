"""Whole numbers that users give: 3, np.int64(3) and 3.0 are the same number."""

from __future__ import annotations

from numbers import Real

__all__ = ["check_whole"]


def check_whole(value: object, name: str, least: int, most: int | None = None) -> int:
    """``value`` as an int, if it is a whole number from ``least`` to ``most``.

    >>> from auucmax.data._whole import check_whole
    >>> check_whole(1e4, "n_rows", 2)
    10000
    """
    if isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer():
        number = int(float(value))
        if number >= least and (most is None or number <= most):
            return number
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(
        f"{name} should be a whole number {allowed}, got {value!r}. Pass an integer in that range."
    )
