"""Metrics as scorers, for scikit-learn's ``cross_validate`` and ``GridSearchCV``.

They ask for ``treatment`` by themselves: turn scikit-learn's metadata routing on and pass
``params={"treatment": treatment}`` to ``cross_validate``. Imported late, for scikit-learn's metrics
take a while.
"""

from __future__ import annotations

from sklearn import config_context
from sklearn.metrics import make_scorer

from auucmax.evaluation.metrics import auuc_score, qini_score

# Requests can only be declared while routing is on; declared, they hold for everybody.
with config_context(enable_metadata_routing=True):
    auuc_scorer = make_scorer(auuc_score).set_score_request(treatment=True, sample_weight=True)
    qini_scorer = make_scorer(qini_score).set_score_request(treatment=True, sample_weight=True)
