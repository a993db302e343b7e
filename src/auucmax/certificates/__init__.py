"""Lower bounds on AUUC: certificates that hold, and the paper's bound, which does not.

:func:`certify` is for a fixed score, :func:`progressive_certificate` for models that are trained on
the rows they are judged on; docs/guarantees.md has the proofs. Bounds that only a figure needs are
in ``experiments/rival_bounds``.
"""

from __future__ import annotations

from auucmax.certificates.betting import betting_bound, betting_bounds
from auucmax.certificates.bound import paper_bound, paper_gap
from auucmax.certificates.certify import (
    Certificate,
    certify,
    certify_difference,
    certify_thresholds,
)
from auucmax.certificates.fixed_bets import (
    ProgressiveCertificate,
    histogram_betting_bounds,
    progressive_certificate,
)
from auucmax.certificates.policies import (
    PolicyCertificate,
    ShareCertificate,
    certify_policy,
    certify_shares,
)
from auucmax.certificates.strata import StrataBounds, strata_bounds
from auucmax.certificates.types import LowerBound

__all__ = [
    "Certificate",
    "LowerBound",
    "PolicyCertificate",
    "ProgressiveCertificate",
    "ShareCertificate",
    "StrataBounds",
    "betting_bound",
    "betting_bounds",
    "certify",
    "certify_difference",
    "certify_policy",
    "certify_shares",
    "certify_thresholds",
    "histogram_betting_bounds",
    "paper_bound",
    "paper_gap",
    "progressive_certificate",
    "strata_bounds",
]
