"""Lower bounds on AUUC: certificates that hold, rivals, and the paper's, which does not.

:func:`certify` is the door for users. :data:`ALL_BOUNDS` lists every bound with its target, its
assumptions, its formula, and whether it holds; docs/guarantees.md has the proofs.
"""

from __future__ import annotations

from auucmax.bounds.bernstein import block_bernstein_bound, dkw_bernstein_bound
from auucmax.bounds.betting import (
    BETTING_BOUNDS,
    betting_bound,
    betting_bounds,
    betting_difference_bound,
)
from auucmax.bounds.binned import binned_dkw_bernstein_bound, binned_mcdiarmid_bound
from auucmax.bounds.certificate import Certificate
from auucmax.bounds.certify import certify, certify_difference, certify_thresholds
from auucmax.bounds.cover import (
    fractional_chromatic_number,
    fractional_cover,
    local_fractional_rademacher,
)
from auucmax.bounds.holdout import (
    HOLDOUT_BOUNDS,
    agarwal_fixed_bound,
    asymptotic_bound,
    mcdiarmid_bound,
    mcdiarmid_conditional_bound,
    per_class_bound,
)
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.pac_bayes import (
    PAC_BAYES_BOUNDS,
    chromatic_pac_bayes_bound,
    pac_bayes_bound,
)
from auucmax.bounds.paper import PAPER_BOUNDS, paper_bound, paper_gap
from auucmax.bounds.progressive import ProgressiveCertificate, progressive_certificate
from auucmax.bounds.registry import Bound
from auucmax.bounds.threshold_band import threshold_band_bound
from auucmax.bounds.training import (
    TRAINING_BOUNDS,
    agarwal_uniform_bound,
    freund_bound,
    margin_bound,
    usunier_bound,
)

#: Every bound by its name.
ALL_BOUNDS = {
    bound.name: bound
    for bound in (
        *BETTING_BOUNDS,
        *HOLDOUT_BOUNDS,
        *PAC_BAYES_BOUNDS,
        *TRAINING_BOUNDS,
        *PAPER_BOUNDS,
    )
}

__all__ = [
    "ALL_BOUNDS",
    "Bound",
    "Certificate",
    "LowerBound",
    "ProgressiveCertificate",
    "agarwal_fixed_bound",
    "agarwal_uniform_bound",
    "asymptotic_bound",
    "betting_bound",
    "betting_bounds",
    "betting_difference_bound",
    "binned_dkw_bernstein_bound",
    "binned_mcdiarmid_bound",
    "block_bernstein_bound",
    "certify",
    "certify_difference",
    "certify_thresholds",
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
    "paper_bound",
    "paper_gap",
    "per_class_bound",
    "progressive_certificate",
    "threshold_band_bound",
    "usunier_bound",
]
