"""Features that reveal the outcome or the treatment, and so were recorded after treatment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.balance import Codes, arms_of, differences, likelihood_ratio_test, rank_auc
from auucmax.data.covariates import Feature
from auucmax.data.trial import Trial

# So many rows are enough to detect a feature in disguise.
MAX_ROWS = 200_000
# A feature with an AUC or a correlation beyond this almost determines its target.
ALMOST_ONE = 0.99
# Within an arm, little that was known before treatment predicts an outcome better than this: an
# AUC, or the rank correlation of two normal numbers of which as many pairs agree.
HIGH_AUC, HIGH_CORRELATION = 0.85, 0.9
# A feature that predicts it as well as this, and differs between the arms with a p-value below
# SHIFTED by SMALL standard deviations or more, may follow from the outcome.
STRONG_AUC, STRONG_CORRELATION = 0.75, 0.6
SHIFTED = 1e-3
# Below this standardised difference an imbalance is too small to matter much to an average.
SMALL = 0.02
# Fewer rows of a class than this can be separated by chance.
FEWEST = 20
# A run of rows of one class at the end of a feature is no accident below this probability.
RARE = 1e-9


@dataclass(frozen=True)
class Suspect:
    """A suspicious feature, which should be looked at before it is used.

    ``target`` is "outcome" or "treatment"; ``measure`` is "AUC" or "Spearman" (of the feature with
    the target), "rows" (how many rows at one end of the feature all have the same target), "values"
    (how many values the feature has, all of them in one arm: it is missing in the other), or "p"
    (of the difference between the arms, for a feature that predicts the outcome). ``is_high``: it
    predicts the outcome so well that one must ask when it was recorded.
    """

    feature: str
    target: str
    measure: str
    value: float
    is_high: bool = False

    @property
    def is_after(self) -> bool:
        """Whether the feature was probably recorded after treatment.

        It determines the outcome or the arm almost without error. Treatment that merely depends on
        a feature was not randomised.
        """
        return self.target == "outcome" or self.measure not in ("rows", "p")


def find_suspects(
    features: Sequence[Feature], trial: Trial, rng: np.random.Generator
) -> tuple[list[Suspect], list[Suspect]]:
    """Suspicious features, and features that predict the outcome so well that they need a check."""
    if trial.n_rows > MAX_ROWS:
        rows = np.sort(rng.choice(trial.n_rows, MAX_ROWS, replace=False))
        features = [replace(feature, values=feature.values[rows]) for feature in features]
        trial = trial.take(rows)
    y, treatment = trial.y, trial.treatment
    labels = trial.arms if trial.is_multi_arm else trial.arms[1:]
    found = [treatment_suspect(f, treatment == label) for label in labels for f in features]
    # With several arms: that it tells one of them without fail, if it does.
    first = {own.feature: own for own in sorted(filter(None, found), key=lambda own: own.is_after)}
    suspects = [*first.values(), *filter(None, (outcome_suspect(f, y) for f in features))]
    known = {suspect.feature for suspect in suspects}
    rest = [feature for feature in features if feature.name not in known]
    strong = {f.name: hint for f in rest if (hint := outcome_hint(f, y, treatment)) is not None}
    shifted = {
        f.name: suspect
        for _, rows, treated, codes in arms_of(trial)
        for f in rest
        if f.name in strong and (suspect := shifted_suspect(f, rows, treated, codes))
    }
    doubts = [hint for name, hint in strong.items() if hint.is_high or name in shifted]
    return [*suspects, *shifted.values()], doubts


def outcome_suspect(feature: Feature, y: Floats) -> Suspect | None:
    """The feature if it almost determines the outcome.

    With two outcomes: an AUC of a feature alone above .99 (or below .01); or rows at one end of
    its values, at least 50 and 1% of the rarer outcome, that all have the rarer outcome where the
    rows next to them mostly have not (a sum spent, when the outcome is a visit). With more
    outcomes: a rank correlation beyond .99; or the same as with two, of the lowest outcome against
    all others, if a tenth of the rows have it (a visit, when the outcome is a sum spent).
    """
    above, has_two = _above_lowest(y)
    if not has_two:
        for rows, order in _orders(feature, y):
            correlation = _rank_correlation(order, y[rows])
            if correlation > ALMOST_ONE:
                return Suspect(feature.name, "outcome", "Spearman", correlation)
    if not above.any():
        return None
    rarer = above if 2 * above.sum() <= len(y) else ~above
    return _separator(feature, rarer, "outcome", max(50, int(0.01 * rarer.sum())))


def outcome_hint(feature: Feature, y: Floats, treatment: NDArray[Any]) -> Suspect | None:
    """The feature if it predicts the outcome suspiciously well.

    Within one of the arms, where treatment explains nothing: an AUC beyond .75 of the lowest
    outcome against all others; or, of more than two outcomes, a rank correlation beyond .6. Levels
    are ordered by the means of other arms, or they would follow the noise of their own.
    """
    above, has_two = _above_lowest(y)
    hints = []
    for label in pd.unique(treatment):
        arm = treatment == label
        for rows, order in _orders(feature, y, ~arm):
            own, order = rows & arm, order[arm[rows]]
            auc = _folded_auc(order, above[own])
            n_rarer = min(above[own].sum(), (~above[own]).sum())
            error = np.sqrt(auc * (1 - auc) / max(n_rarer, 1))
            found = {"AUC": (auc, STRONG_AUC, HIGH_AUC + 2 * error)}
            if not has_two:
                correlation = _rank_correlation(order, y[own])
                found["Spearman"] = (correlation, STRONG_CORRELATION, HIGH_CORRELATION)
            hints += [
                Suspect(feature.name, "outcome", measure, value, bool(value > high))
                for measure, (value, strong, high) in found.items()
                if value > strong
            ]
    return max(hints, key=lambda hint: (hint.is_high, hint.value), default=None)


def shifted_suspect(
    feature: Feature, rows: NDArray[np.intp], treated: Bools, codes: Codes | None
) -> Suspect | None:
    """A feature that predicts the outcome well, if it differs between the arms.

    A feature known before treatment differs between the arms by chance only; one that follows the
    outcome, however noisily, differs as the outcome does. In a fair trial each feature is flagged
    with probability .001. Features are tested one by one: among many, a difference may look like
    chance.
    """
    known = ~feature.missing[rows]
    values = feature.values[rows][known]
    arm = treated[known]
    if min(arm.sum(), (~arm).sum()) < FEWEST:
        return None
    if not feature.levels:
        values = pd.Series(values).rank().to_numpy()
    own = [replace(feature, values=values)]
    groups = None if codes is None else pd.factorize(codes[known])[0]
    test = likelihood_ratio_test(own, arm, groups)
    if test is None or test.p_value >= SHIFTED:
        return None
    if max(abs(line["difference"]) for line in differences(own, arm)) < SMALL:
        return None
    return Suspect(feature.name, "treatment", "p", test.p_value)


def treatment_suspect(feature: Feature, treated: Bools) -> Suspect | None:
    """The feature if it reveals who was treated.

    An AUC of a feature alone above .99 (or below .01), or values in one arm only: the treatment
    itself, or something that followed it. Or rows at one end of its values that are all of one arm,
    more than chance could give: treatment depends on it.
    """
    found = _separator(feature, treated, "treatment", FEWEST)
    found = found or _separator(feature, ~treated, "treatment", FEWEST)
    missing = feature.missing
    if found and found.measure == "rows" and (missing[treated].all() or missing[~treated].all()):
        return Suspect(feature.name, "treatment", "values", float(np.count_nonzero(~missing)))
    return found


def _separator(feature: Feature, positive: Bools, target: str, least: int) -> Suspect | None:
    for rows, order in _orders(feature, positive.astype(np.float64)):
        auc = _folded_auc(order, positive[rows])
        if auc > ALMOST_ONE:
            return Suspect(feature.name, target, "AUC", auc)
        for end in (order, -order):
            length, next_rate = _pure_end(end, positive[rows])
            # A strong predictor of the outcome also has a pure end, but one that fades out.
            sharp = target == "treatment" or next_rate < 0.5
            if length >= least and positive.mean() ** length < RARE and sharp:
                return Suspect(feature.name, target, "rows", float(length))
    return None


def _above_lowest(y: Floats) -> tuple[Bools, bool]:
    """Mask of outcomes above the lowest, and whether there are at most two distinct outcomes.

    The mask is empty if there are more, and few rows have the lowest one.
    """
    above = y > y.min()
    has_two = bool((y[above] == y.max()).all())
    return above & (has_two or above.mean() <= 0.9), has_two


def _folded_auc(order: Floats, label: Bools) -> float:
    """The AUC or one minus it, whichever is larger; 1/2 if a class has few rows."""
    if min(label.sum(), (~label).sum()) < FEWEST:
        return 0.5
    auc = rank_auc(order, label)[0]
    return max(auc, 1 - auc)


def _rank_correlation(order: Floats, y: Floats) -> float:
    """Absolute rank correlation; NaN for few rows or constant values."""
    table = pd.DataFrame({"x": order, "y": y})
    return abs(float(table.corr("spearman", min_periods=FEWEST).loc["x", "y"]))


def _orders(
    feature: Feature, target: Floats, training: Bools | None = None
) -> Iterator[tuple[Bools, Floats]]:
    """Orderings of the rows by a feature, each with its mask.

    Numbers order the rows that have one; being missing or not orders all rows; levels (missing
    among them) are ordered by the mean of the target, if there are rows enough for means: that of
    the ``training`` rows, or of all.
    """
    every = np.ones(len(target), dtype=bool)
    if feature.levels:
        codes = feature.values + 1
        if len(codes) >= FEWEST * (len(feature.levels) + 1):
            some = every if training is None else training
            known = pd.Series(target[some]).groupby(codes[some]).mean()
            means = known.reindex(range(len(feature.levels) + 1), fill_value=target.mean())
            yield every, means.to_numpy()[codes]
        return
    missing = feature.missing
    if not missing.all():
        yield ~missing, feature.numbers(~missing)
    if missing.any():
        yield every, missing.astype(np.float64)


def _pure_end(order: Floats, label: Bools) -> tuple[int, float]:
    """Number of top rows that all have the label, and its share among as many below.

    Tied rows stay together. 0 and 0 if the top has none, or if all rows have the label.
    """
    top = order > order[~label].max(initial=-np.inf)
    length = int(top.sum())
    if length in (0, len(order)):
        return 0, 0.0
    rest, rest_label = order[~top], label[~top]
    place = max(len(rest) - length, 0)
    after = rest >= np.partition(rest, place)[place]
    return length, float(rest_label[after].mean())
