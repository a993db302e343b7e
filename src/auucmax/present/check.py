"""``summarise_check``: every number of the page of a check, as one dictionary."""

from __future__ import annotations

from typing import Any

from auucmax._json import plain, short
from auucmax._validation import Bools
from auucmax.data import RandomisationReport
from auucmax.data.binning import binned
from auucmax.data.few import LEAST_ROWS
from auucmax.data.trial import TrialSummary
from auucmax.encoding.frames import frame_of
from auucmax.model.evidence import describe_randomisation
from auucmax.model.people import compared
from auucmax.present.summary import VERSION

CHECK_KIND = "auucmax check"
MOST_COLUMNS = 24  #: at a glance


def summarise_check(
    report: RandomisationReport,
    trial: TrialSummary,
    features: Any,
    treated: Bools,
    *,
    outcome: str = "",
    file: str = "",
) -> dict[str, Any]:
    """All numbers of the page of a check of two arms.

    Parameters
    ----------
    report : from :func:`auucmax.check_randomisation`. trial : the summary of the same rows.
    features, treated : (n, d) raw columns of these rows, and who of them was treated.
    outcome : the kind of the outcome, in words. file : where the rows come from.

    No number is about fewer than 20 people.
    """
    features = frame_of(features)
    columns = compared(binned(features), treated.astype(float))
    found = {
        "kind": CHECK_KIND,
        "version": VERSION,
        "failed_check": report.for_others().verdict if report.stops else None,
        "names": {
            "outcome": short(trial.outcome_name),
            "treatment": short(trial.treatment_name),
            "file": short(file),
            "kind": outcome,
        },
        "randomisation": describe_randomisation(report),
        "questions": list(report.questions),
        "trial": trial.to_dict(),
        "columns": columns[:MOST_COLUMNS],
        "n_columns": len(columns),
        "missing": [
            {"name": short(name), "share": float(features[name].isna().mean())}
            for name in features.columns
            if features[name].isna().sum() >= LEAST_ROWS <= features[name].notna().sum()
        ],
    }
    return dict(plain(found))
