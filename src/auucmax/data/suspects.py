"""Features that look like the outcome or the treatment in disguise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax.data.balance import rank_auc
from auucmax.data.covariates import Covariates, Feature

__all__ = ["Suspect", "outcome_suspects", "treatment_suspects"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ALMOST_ONE = 0.99
# Fewer rows of a class than this can be separated by chance.
FEWEST = 20
# A run of rows of one class at the end of a feature is no accident below this probability.
RARE = 1e-9


@dataclass(frozen=True)
class Suspect:
    """A feature that should not be used before someone has looked at it.

    ``target`` is "outcome" or "treatment"; ``measure`` is "AUC" or "Spearman" (of the feature with
    the target), or "rows" (how many rows at one end of the feature all have the same target).
    """

    feature: str
    target: str
    measure: str
    value: float

    def __str__(self) -> str:
        if self.measure == "rows":
            return (
                f"{self.feature}: {self.value:,.0f} rows at one end of its values all have the "
                f"same {self.target}"
            )
        return f"{self.feature}: {self.measure} {self.value:.4f} with the {self.target}"


def outcome_suspects(covariates: Covariates, y: Floats) -> tuple[Suspect, ...]:
    """Features that almost settle the outcome.

    With two outcomes: an AUC of a feature alone above .99 (or below .01); or rows at one end of
    its values, at least 50 and 1% of the rarer outcome, that all have the rarer outcome where the
    rows next to them mostly have not (a sum spent, when the outcome is a visit). With more
    outcomes: a rank correlation beyond .99.
    """
    values = pd.unique(y)
    if len(values) == 2:
        positive = y == values.max()
        rarer = positive if 2 * positive.sum() <= len(y) else ~positive
        least = max(50, int(0.01 * rarer.sum()))
        return _found(_separator(f, rarer, "outcome", least) for f in covariates.features)
    if len(values) > 2:
        return _found(_correlate(feature, y) for feature in covariates.features)
    return ()


def treatment_suspects(covariates: Covariates, treated: Bools) -> tuple[Suspect, ...]:
    """Features that tell who was treated: the treatment itself, or something that followed it.

    An AUC of a feature alone above .99 (or below .01); or rows at one end of its values that are
    all of one arm, more than chance could give (an e-mail opened, when only the treated got one).
    """
    return _found(
        _separator(feature, treated, "treatment", FEWEST)
        or _separator(feature, ~treated, "treatment", FEWEST)
        for feature in covariates.features
    )


def _found(candidates: Iterable[Suspect | None]) -> tuple[Suspect, ...]:
    return tuple(suspect for suspect in candidates if suspect is not None)


def _separator(feature: Feature, positive: Bools, target: str, least: int) -> Suspect | None:
    chance = np.log(positive.mean()) if positive.any() else 0.0
    for rows, order in _orders(feature, positive.astype(np.float64)):
        label = positive[rows]
        if min(label.sum(), (~label).sum()) >= FEWEST:
            auc = rank_auc(order, label)[0]
            if max(auc, 1 - auc) > ALMOST_ONE:
                return Suspect(feature.name, target, "AUC", max(auc, 1 - auc))
        for end in (order, -order):
            length, next_rate = _pure_end(end, label)
            # A strong predictor of the outcome also has a pure end, but one that fades out.
            sharp = target == "treatment" or next_rate < 0.5
            if length >= least and length * chance < np.log(RARE) and sharp:
                return Suspect(feature.name, target, "rows", float(length))
    return None


def _correlate(feature: Feature, y: Floats) -> Suspect | None:
    for rows, order in _orders(feature, y):
        if len(order) < FEWEST:
            continue
        ranks = pd.DataFrame({"x": order, "y": y[rows]}).rank().to_numpy()
        spread = ranks.std(axis=0)
        if spread.min() == 0:
            continue
        centred = ranks - ranks.mean(axis=0)
        correlation = abs(float(np.mean(centred[:, 0] * centred[:, 1]) / spread.prod()))
        if correlation > ALMOST_ONE:
            return Suspect(feature.name, "outcome", "Spearman", correlation)
    return None


def _orders(feature: Feature, target: Floats) -> Iterator[tuple[Bools, Floats]]:
    """Ways to order rows by a feature: their mask, and a number for each.

    Numbers order the rows that have one; being missing or not orders all rows; levels (missing
    among them) are ordered by the mean of the target, if there are rows enough for means.
    """
    every = np.ones(len(target), dtype=bool)
    if feature.levels:
        codes = feature.values + 1
        if len(codes) >= FEWEST * (len(feature.levels) + 1):
            size = np.maximum(np.bincount(codes), 1)
            yield every, (np.bincount(codes, weights=target) / size)[codes]
        return
    missing = feature.missing
    if not missing.all():
        yield ~missing, feature.numbers(~missing)
    if missing.any():
        yield every, missing.astype(np.float64)


def _pure_end(order: Floats, label: Bools) -> tuple[int, float]:
    """How many rows at the top all have the label, and its share in as many rows after them.

    Tied rows stay together. 0 and 0 if the top has none, or if all rows have the label.
    """
    if label.all():
        return 0, 0.0
    top = order > order[~label].max()
    length = int(top.sum())
    if length == 0:
        return 0, 0.0
    rest, rest_label = order[~top], label[~top]
    place = max(len(rest) - length, 0)
    after = rest >= np.partition(rest, place)[place]
    return length, float(rest_label[after].mean())
