"""A source of rows for the tests: batches in a list."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np

from auucmax.rows import Batch, Rows


class ListedRows(Rows):
    """Every summary is pickled and loaded before it is used, as on its way to another machine."""

    def __init__(self, X, y, treatment, edges=(), names=None, weight=None):
        X, y, treated = np.asarray(X), np.asarray(y, dtype=float), np.asarray(treatment) == 1
        keys = np.arange(len(y), dtype=np.uint64)
        cuts = [0, *sorted(edges), len(y)]
        known = [X, y, treated, keys] + ([] if weight is None else [np.asarray(weight, float)])
        self.weighted = weight is not None
        self._batches = [Batch(*(own[a:b] for own in known)) for a, b in pairwise(cuts)]
        self.names = tuple(names or (f"x{k}" for k in range(X.shape[1])))
        self.n_readings = 0

    def batches(self):
        self.n_readings += 1
        yield from self._batches

    def _total(self, steps, summaries):
        return super()._total(*pickle.loads(pickle.dumps((steps, summaries))))
