"""Scorers for ``cross_validate`` and ``GridSearchCV``; they ask for ``treatment`` by themselves.

Turn scikit-learn's metadata routing on and pass the treatment once:

>>> import sklearn
>>> from sklearn.model_selection import cross_validate
>>> from auucmax import TrialKFold, auuc_scorer
>>> with sklearn.config_context(enable_metadata_routing=True):  # doctest: +SKIP
...     cross_validate(
...         model, X, y, scoring=auuc_scorer, cv=TrialKFold(), params={"treatment": treatment}
...     )
"""

from __future__ import annotations

from sklearn import config_context
from sklearn.metrics import make_scorer

from auucmax.evaluation.auuc import auuc_score
from auucmax.evaluation.curves import qini_score

__all__ = ["auuc_scorer", "qini_scorer"]

# Requests can only be declared while routing is on; declared, they hold for everybody.
with config_context(enable_metadata_routing=True):
    auuc_scorer = make_scorer(auuc_score).set_score_request(treatment=True, sample_weight=True)
    qini_scorer = make_scorer(qini_score).set_score_request(treatment=True, sample_weight=True)
