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
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import check_chance, check_column, check_labels, check_mask
from auucmax.certificates.betting import dense_ranks, known_range
from auucmax.certificates.blocks import DealtUnits, check_dealings, check_whole_clusters
from auucmax.certificates.bound import Guarantee, shared_level
from auucmax.certificates.fixed_bets import LEAST, BetRows, Pilot, one_size_bounds
from auucmax.certificates.known_chances import propensity_range

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
    sizes = [np.size(y) for y, _, _ in chunks]
    has_score = [score is not None for _, score, _ in chunks]
    if len(sizes) < 2 or has_score != [k > 0 for k in range(len(sizes))]:
        raise InputError(
            "chunks", "at least two, with None in chunk 0, before any model is fitted, and scores "
            "in all others",
            f"{len(sizes)} with scores in chunks {np.flatnonzero(has_score).tolist()}",
            "Score chunk k with the model of the chunks before it.",
        )  # fmt: skip

    def joined(name: str, parts: Sequence[Any]) -> NDArray[Any]:
        if [np.size(part) for part in parts] != sizes:
            raise InputError(
                name, f"one array for each of the {len(sizes)} chunks, with a value a row",
                f"arrays of {', '.join(str(np.size(part)) for part in parts)} rows",
                "Cut the column as the rows were cut.",
            )  # fmt: skip
        return np.concatenate(parts)

    y = check_column(joined("y", [y for y, _, _ in chunks]), "y")
    n_rows = len(y)
    scores = [np.zeros(sizes[0]), *(score for _, score, _ in chunks[1:])]
    score = check_column(joined("score", scores), "score", n_rows)
    treated = check_mask(joined("treated", [arms for _, _, arms in chunks]), "treated", n_rows)
    chance = clusters = None
    if propensity is not None:
        chance = check_chance(joined("propensity", propensity), n_rows)
    if groups is not None:
        labels = check_labels(joined("groups", groups), "groups", n_rows)
        clusters = np.unique(labels, return_inverse=True)[1]
        check_whole_clusters(clusters, np.repeat(np.arange(len(sizes)), sizes), "chunk")
    if outcome_range is None and not np.isin(y, (0, 1)).all():
        raise InputError(
            "outcomes", "0/1, or given with outcome_range=(lowest, highest), as they are possible",
            f"outcomes from {y.min():g} to {y.max():g} and no range",
            "Pass it, or use the interval of auuc_inference, which is no guarantee.",
        )  # fmt: skip
    low, high = known_range(outcome_range or (0.0, 1.0), y.min(), y.max())
    y = (y - low) / (high - low)
    n_dealings, seed = check_dealings(n_dealings, n_rows, random_state)
    ends = np.cumsum([0, *sizes])
    first, *later = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
    pilot = Pilot.of(y[first], treated[first], None if chance is None else chance[first])
    y = pilot.outcomes(y, treated, chance)
    rows, judged = [], []
    for k, part in enumerate(later):
        units = DealtUnits.of(treated[part], None if clusters is None else clusters[part])
        if chance is not None:  # blocks may not depend on treatment
            units = units.as_one_arm()
        if np.greater_equal(units.counts, (1, 1) if chance is None else (2, 0)).all():
            rows.append(BetRows(dense_ranks(score[part])[None], y[part], units))
            judged.append(k)
    bounds = list(LEAST)
    if judged:
        bounds, _ = one_size_bounds(pilot, rows, level, n_dealings, seed)
    shares = (ends[1:] / n_rows)[judged].tolist() or [0.0]
    return ProgressiveCertificate(
        lower_bound=bounds[0] * (high - low),
        gain_lower_bound=bounds[1] * (high - low),
        delta=delta,
        joint=joint,
        n_rows=sum(len(own.residual) for own in rows),
        n_models=len(judged),
        trained_on=(shares[0], shares[-1]),
        outcome_range=(low, high),
        n_candidates=int(n_candidates),
        propensity=propensity_range(chance),
        grouped=groups is not None,
    )
