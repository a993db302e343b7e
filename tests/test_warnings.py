"""Warnings point at the line outside of the package, however deep they come from."""

import warnings

from auucmax._warnings import level_of_caller

INSIDE = """
def warn(depth):
    if depth:
        return warn(depth - 1)
    warnings.warn("hm", UserWarning, stacklevel=level_of_caller())
"""


def test_the_line_of_the_caller_is_named():
    space = {
        "__name__": "auucmax.made_up",
        "warnings": warnings,
        "level_of_caller": level_of_caller,
    }
    exec(INSIDE, space)
    for depth in (0, 1, 5):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            space["warn"](depth)
        assert [one.filename for one in found] == [__file__]
