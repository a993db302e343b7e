"""Progressive validation: certify models on each chunk before training on it.

Rows are assigned to chunks at random. Model k was trained on the chunks before chunk k and is
judged on chunk k, so every row but those of the first chunk is bet on, and every model may be as
greedy as it likes. What is certified is the mean of theta_k, the AUUC (or the gain) of model k,
over the blocks of all chunks, by bets of one size (``fixed_bets.py``) that chunk 0 decides: 1 + x
<= exp(x) turns the mean of each factor, 1 + lambda (theta_k - theta_0), into a power whose
exponents add up, whatever the models. The proof is in docs/guarantees.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import (
    Bools,
    Floats,
    check_chance,
    check_column,
    check_labels,
    check_mask,
)
from auucmax.certificates.betting import dense_ranks, known_range
from auucmax.certificates.blocks import DealtUnits, check_dealings
from auucmax.certificates.bound import Guarantee, shared_level
from auucmax.certificates.fixed_bets import LEAST, BetRows, Pilot, one_size_bounds
from auucmax.certificates.known_chances import effect_pilot, propensity_range

Chunk = tuple[ArrayLike, ArrayLike | None, ArrayLike]


@dataclass(frozen=True, repr=False, kw_only=True)
class ProgressiveCertificate(Guarantee):
    """Lower bounds of the mean AUUC and gain of models trained on growing data.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``n_models`` models were judged, trained on the
    shares ``trained_on`` (lowest, highest) of all rows.
    """

    lower_bound: float
    gain_lower_bound: float
    joint: bool
    n_models: int
    trained_on: tuple[float, float]


def progressive_certificate(
    chunks: Sequence[Chunk],
    *,
    delta: float = 0.05,
    joint: bool = False,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] | None = None,
    groups: Sequence[ArrayLike] | None = None,
    propensity: Sequence[ArrayLike] | None = None,
    n_dealings: int | None = None,
    random_state: int = 0,
) -> ProgressiveCertificate:
    """Certify the average AUUC and gain of the models of progressive validation.

    Parameters
    ----------
    chunks : (y, score, treated) of each chunk, rows assigned to chunks at random. The first chunk
        has no score (None) and is not bet on; the scores of chunk k come from a model, with all
        its choices, that was trained on the chunks before it.
    delta : probability with which a bound may fail; ``joint``: both bounds at once, at delta/2.
    n_candidates : how many ways of making the models this one was chosen from on these very rows.
    outcome_range : lowest and highest possible outcome, known beforehand; outcomes that are not
        0/1 cannot do without it.
    groups : cluster of each row, an array for each chunk; clusters lie in one chunk and one arm,
        and count equally whatever their size.
    propensity : known chance of treatment of each row, an array for each chunk, where it was not
        the same for all; each row was treated by an independent draw. Bets are then on
        Horvitz-Thompson statistics. Chances less than .8 times as far from 0 and 1 as those of
        the first chunk are refused: the size of bets must not depend on the rows that are bet on.
    n_dealings : of rows into blocks (default: 20 up to 250 thousand rows, then fewer, 2 at least).
    random_state : of the dealings.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> chunk = np.random.default_rng(0).integers(5, size=trial.n_rows)
    >>> rows = [(trial.y[chunk == k], trial.treated[chunk == k]) for k in range(5)]
    >>> women = [trial.X["womens"][chunk == k] for k in range(5)]  # in place of four models
    >>> chunks = [(y, women[k] if k else None, t) for k, (y, t) in enumerate(rows)]
    >>> progressive_certificate(chunks).gain_lower_bound > 0.003
    True
    """
    level = shared_level(delta, n_candidates) / (2 if joint else 1)
    first, *later = _checked(chunks, groups, propensity)
    y = np.concatenate([part.y for part in (first, *later)])
    if outcome_range is None and not np.isin(y, (0, 1)).all():
        raise InputError(
            "outcomes", "0/1, or given with outcome_range=(lowest, highest), as they are possible",
            f"outcomes from {y.min():g} to {y.max():g} and no range",
            "Pass it, or use the interval of auuc_inference, which is no guarantee.",
        )  # fmt: skip
    low, high = 0.0, 1.0
    if outcome_range is not None:
        low, high = known_range(outcome_range, y.min(), y.max())
    # Plus 1: all chunks may be empty.
    n_dealings, seed = check_dealings(n_dealings, len(y) + 1, random_state)
    by_chance = propensity is not None
    units = [DealtUnits.of(part.treated, part.clusters) for part in later]
    if by_chance:  # blocks may not depend on treatment
        units = [own.as_one_arm() for own in units]
    least = (2, 0) if by_chance else (1, 1)
    judged = [k for k, own in enumerate(units) if np.greater_equal(own.counts, least).all()]
    bounds = list(LEAST)
    if judged:
        if by_chance:
            means, pilot = effect_pilot((first.y - low) / (high - low), first.treated, first.chance)
        else:
            pilot = Pilot.of((first.y - low) / (high - low), first.treated)
        rows = []
        for k in judged:
            part, residual = later[k], (later[k].y - low) / (high - low)
            if by_chance:
                residual = means.one_effect(residual, part.treated, part.chance)
            rows.append(BetRows(dense_ranks(part.score)[None], residual, units[k]))
        counts = [own.units.counts for own in rows]
        bounds, _ = one_size_bounds(pilot, counts, lambda _: rows, level, n_dealings, seed)
    sizes = [len(part.y) for part in (first, *later)]
    shares = [float(sum(sizes[: k + 1]) / sum(sizes)) for k in judged] or [0.0]
    return ProgressiveCertificate(
        lower_bound=bounds[0] * (high - low),
        gain_lower_bound=bounds[1] * (high - low),
        delta=delta,
        joint=joint,
        n_rows=sum(sizes[k + 1] for k in judged),
        n_models=len(judged),
        trained_on=(shares[0], shares[-1]),
        outcome_range=(low, high),
        n_candidates=int(n_candidates),
        propensity=propensity_range(*(propensity or ())),
        grouped=groups is not None,
    )


class _Rows(NamedTuple):
    """Validated rows of a chunk; the first has no scores."""

    y: Floats
    score: Floats
    treated: Bools
    clusters: NDArray[np.intp] | None
    chance: Floats


def _checked(
    chunks: Sequence[Chunk],
    groups: Sequence[ArrayLike] | None,
    propensity: Sequence[ArrayLike] | None,
) -> list[_Rows]:
    """Validate the chunks; those that lack an arm are not bet on."""
    if len(chunks) < 2:
        raise InputError(
            "chunks", "at least two, the first of which is only trained on", str(len(chunks)),
            "Assign the rows to more chunks.",
        )  # fmt: skip
    for name, arrays in (("groups", groups), ("propensity", propensity)):
        if arrays is not None and len(arrays) != len(chunks):
            raise InputError(
                name, f"one array for each of the {len(chunks)} chunks", str(len(arrays)),
                "Cut the column as the rows were cut.",
            )  # fmt: skip
    rows, labels = [], list[NDArray[Any]]([np.empty(0)])
    for k, (y, score, treated) in enumerate(chunks):
        if (score is None) != (k == 0):
            raise InputError(
                "score", "None in chunk 0, before any model is fitted, and given in all others",
                f"{'none' if score is None else 'scores'} in chunk {k}",
                "Score chunk k with the model of the chunks before it.",
            )  # fmt: skip
        none = np.empty(0)
        if np.size(y) == np.size(treated) == 0:
            rows.append(_Rows(none, none, np.empty(0, bool), None, none))
            continue
        outcome = check_column(y, "y")
        clusters = None
        if groups is not None:
            given = check_labels(groups[k], "groups", len(outcome))
            names, clusters = np.unique(given, return_inverse=True)
            labels.append(names)
        rows.append(
            _Rows(
                outcome,
                none if score is None else check_column(score, "score", len(outcome)),
                check_mask(treated, "treated", len(outcome)),
                clusters,
                none if propensity is None else check_chance(propensity[k], len(outcome)),
            )
        )
    names, counts = np.unique(np.concatenate(labels[1:] or labels), return_counts=True)
    if (counts > 1).any():
        raise InputError(
            "groups", "clusters that each lie in one chunk",
            f"{int((counts > 1).sum())} that reach into another, such as {names[counts > 1][0]!r}",
            "Assign whole clusters to chunks: models must not know the rows that judge them.",
        )  # fmt: skip
    return rows
