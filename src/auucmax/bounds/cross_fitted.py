"""Cross-fitted scores: a bound for each fold, and their mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from auucmax._validation import Bools, Floats, check_labels
from auucmax.bounds.lower_bound import LowerBound

__all__ = ["over_folds"]


def over_folds(
    bound: Callable[..., LowerBound],
    rows: tuple[Floats, Floats, Bools],
    folds: ArrayLike | None,
    *,
    n_candidates: int,
    **options: Any,
) -> LowerBound:
    """The bound; with folds, the mean of theirs, each at its part of delta."""
    y, score, treated = rows
    if folds is None:
        return bound(y, score, treatment=treated, n_candidates=n_candidates, **options)
    labels, fold = np.unique(check_labels(folds, "folds", len(y)), return_inverse=True)
    by_row = {
        name: check_labels(options[name], name, len(y))
        for name in ("groups", "outcome_model")
        if options.get(name) is not None
    }
    if "groups" in by_row:
        _check_whole_clusters(by_row["groups"], fold)
    results = []
    for number, label in enumerate(labels.tolist()):
        inside = fold == number
        if treated[inside].all() or not treated[inside].any():
            raise ValueError(
                f"each fold should have both arms, got one in fold {label!r}. Make folds by "
                f"treatment, with TrialKFold."
            )
        results.append(
            bound(
                y[inside],
                score[inside],
                treatment=treated[inside],
                n_candidates=n_candidates * len(labels),
                **(options | {name: column[inside] for name, column in by_row.items()}),
            )
        )
    share = np.bincount(fold) / len(fold)
    lower = float(share @ [result.lower for result in results])
    estimate = float(share @ [result.estimate for result in results])
    return replace(results[0], lower=lower, estimate=estimate)


def _check_whole_clusters(groups: Any, fold: Any) -> None:
    codes = pd.factorize(groups)[0]
    n_pairs = len(np.unique(codes.astype(np.int64) * (fold.max() + 1) + fold))
    if n_pairs > codes.max() + 1:
        raise ValueError(
            f"a cluster should lie in one fold, got {n_pairs - codes.max() - 1} that reach into "
            f"another: its rows depend on those that the fold's model was fitted on. Make folds of "
            f"whole clusters."
        )
