"""Metrics as scikit-learn scorers, for ``cross_validate`` and ``GridSearchCV``.

They ask for ``treatment`` by themselves: call ``sklearn.set_config(enable_metadata_routing=True)``
and pass ``params={"treatment": treatment}`` to ``cross_validate``. Without that line scikit-learn
passes the treatment to ``fit`` alone; the scorers then raise ``RoutingDisabled``, which says which
line to add. Imported late, for scikit-learn's metrics take a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from auucmax._validation import check_treatment_given
from auucmax.metrics.functions import auuc_score, qini_score


def _score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    metric: Callable[..., float],
    treatment: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    given = check_treatment_given(treatment, scoring=True)
    return metric(y, score, treatment=given, sample_weight=sample_weight)


def _scorer(metric: Callable[..., float]) -> Any:
    # Requests can only be declared while routing is on; declared, they hold for everybody.
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(_score, metric=metric)
        return scorer.set_score_request(treatment=True, sample_weight=True)


auuc_scorer = _scorer(auuc_score)
qini_scorer = _scorer(qini_score)
