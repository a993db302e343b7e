"""Bounds that figures compare with: valid but wide, or from training rows, or vacuous.

``ALL_BOUNDS`` describes them, and those of the package.
"""

from __future__ import annotations

from experiments.rival_bounds.bound import PACKAGE_BOUNDS, Bound
from experiments.rival_bounds.classical import (
    CLASSICAL_BOUNDS,
    asymptotic_bound,
    dkw_bernstein_bound,
)
from experiments.rival_bounds.cover import (
    fractional_chromatic_number,
    fractional_cover,
    local_fractional_rademacher,
)
from experiments.rival_bounds.held_out import (
    HELD_OUT_RIVALS,
    agarwal_fixed_bound,
    block_bernstein_bound,
    mcdiarmid_bound,
    mcdiarmid_conditional_bound,
    per_class_bound,
    threshold_band_bound,
)
from experiments.rival_bounds.pac_bayes import (
    PAC_BAYES_BOUNDS,
    chromatic_pac_bayes_bound,
    pac_bayes_bound,
)
from experiments.rival_bounds.training import (
    TRAINING_BOUNDS,
    agarwal_uniform_bound,
    freund_bound,
    margin_bound,
    usunier_bound,
)

#: Every bound from held-out rows that figures show besides betting, in their order.
HELD_OUT_BOUNDS = tuple(
    entry
    for name in (
        "mcdiarmid",
        "mcdiarmid-conditional",
        "agarwal-fixed",
        "per-class",
        "dkw-bernstein",
        "block-bernstein",
        "asymptotic",
    )
    for entry in (*CLASSICAL_BOUNDS, *HELD_OUT_RIVALS)
    if entry.name == name
)
#: The bounds of the package, and these.
ALL_BOUNDS = {
    entry.name: entry
    for entry in (
        *PACKAGE_BOUNDS,
        *CLASSICAL_BOUNDS,
        *HELD_OUT_RIVALS,
        *PAC_BAYES_BOUNDS,
        *TRAINING_BOUNDS,
    )
}

__all__ = [
    "ALL_BOUNDS",
    "HELD_OUT_BOUNDS",
    "Bound",
    "agarwal_fixed_bound",
    "agarwal_uniform_bound",
    "asymptotic_bound",
    "block_bernstein_bound",
    "chromatic_pac_bayes_bound",
    "dkw_bernstein_bound",
    "fractional_chromatic_number",
    "fractional_cover",
    "freund_bound",
    "local_fractional_rademacher",
    "margin_bound",
    "mcdiarmid_bound",
    "mcdiarmid_conditional_bound",
    "pac_bayes_bound",
    "per_class_bound",
    "threshold_band_bound",
    "usunier_bound",
]
