"""Progressive validation: a certificate from rows that models learn from, one chunk after another.

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

from auucmax._shown import Shown
from auucmax._validation import (
    Bools,
    Floats,
    check_chance,
    check_column,
    check_labels,
    check_level,
    check_mask,
    check_whole,
)
from auucmax.certificates.betting import dense_ranks, known_range
from auucmax.certificates.blocks import BlockDesign, DealtUnits, block_size, n_dealings_of
from auucmax.certificates.fixed_bets import LEAST, BetRows, Pilot, SizesBets, one_size_bounds
from auucmax.certificates.known_chances import ChancePilot, as_one_arm, randomised

Chunk = tuple[ArrayLike, ArrayLike | None, ArrayLike]


@dataclass(frozen=True, repr=False)
class ProgressiveCertificate(Shown):
    """Lower bounds on the mean AUUC and the mean gain of models trained on more and more rows.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``n_rows`` were bet on; ``n_models`` models were
    judged, trained on the shares ``trained_on`` (lowest, highest) of all rows.
    """

    lower_bound: float
    gain_lower_bound: float
    delta: float
    joint: bool
    n_rows: int
    n_models: int
    trained_on: tuple[float, float]
    assumptions: tuple[str, ...]
    n_candidates: int = 1
    method: str = "progressive betting"


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
    """Certify the models of progressive validation: how good are they at least, on average?

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
        the first chunk are refused: how large bets are must not depend on the rows that are bet on.
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
    check_level(delta, "delta")
    n_candidates = check_whole(n_candidates, "n_candidates", 1)
    random_state = check_whole(random_state, "random_state", 0)
    rows = _checked(chunks, groups, propensity)
    low, high = _range_of(rows, outcome_range)
    rows = [part._replace(y=(part.y - low) / (high - low)) for part in rows]
    if n_dealings is None:
        # Plus 1: all chunks may be empty.
        n_dealings = n_dealings_of(sum(len(part.y) for part in rows) + 1)
    n_dealings = check_whole(n_dealings, "n_dealings", 1)
    level = delta / (2 if joint else 1) / n_candidates
    bounds, judged = _bounds(rows[0], rows[1:], level, n_dealings, random_state)
    before = np.cumsum([len(part.y) for part in rows])
    shares = [float(before[k] / before[-1]) for k in judged] or [0.0]
    return ProgressiveCertificate(
        lower_bound=bounds[0] * (high - low),
        gain_lower_bound=bounds[1] * (high - low),
        delta=delta,
        joint=joint,
        n_rows=sum(len(rows[k + 1].y) for k in judged),
        n_models=len(judged),
        trained_on=(shares[0], shares[-1]),
        assumptions=_assumptions(low, high, n_candidates, rows),
        n_candidates=n_candidates,
    )


class _Rows(NamedTuple):
    """The checked rows of a chunk; ``score`` is empty in the first."""

    y: Floats
    score: Floats
    treated: Bools
    clusters: NDArray[np.intp] | None
    chance: Floats | None = None


def _bounds(
    first: _Rows, later: list[_Rows], level: float, n_dealings: int, random_state: int
) -> tuple[list[float], list[int]]:
    """The two bounds, of outcomes in [0, 1], and which of the later chunks were bet on."""
    units = [DealtUnits.of(part.treated, part.clusters) for part in later]
    judged = [k for k, own in enumerate(units) if len(own.treated) and len(own.control)]
    if first.chance is not None:  # blocks may not depend on treatment
        units = [as_one_arm(own) for own in units]
        judged = [k for k, own in enumerate(units) if len(own.treated) > 1]
    if not judged:
        return list(LEAST), judged
    # One size for all chunks, so that the mean over blocks is that over rows.
    size = block_size(sum(len(units[k].treated) + len(units[k].control) for k in judged))
    designs = [
        BlockDesign.of(len(units[k].treated), len(units[k].control), size=size, pilot=False)
        for k in judged
    ]
    pilot, residuals = _pilot(first, [later[k] for k in judged])
    parts = [
        BetRows(dense_ranks(later[k].score)[None], residual, units[k])
        for k, residual in zip(judged, residuals, strict=True)
    ]
    seed = np.random.SeedSequence(random_state)
    bounds, _ = one_size_bounds(pilot, designs, lambda _: parts, level, n_dealings, seed)
    return bounds, judged


def _pilot(first: _Rows, later: list[_Rows]) -> tuple[SizesBets, list[Floats]]:
    """What decides the bets, and what is bet on of each of the later chunks."""
    if first.chance is None:
        return Pilot.of(first.y, first.treated), [part.y for part in later]
    pilot = ChancePilot.of(first.y, first.treated, first.chance)
    return pilot, [
        pilot.effects(part.y, part.treated, part.chance)
        for part in later
        if part.chance is not None
    ]


def _checked(
    chunks: Sequence[Chunk],
    groups: Sequence[ArrayLike] | None,
    propensity: Sequence[ArrayLike] | None,
) -> list[_Rows]:
    """The chunks as arrays; a chunk may be empty or lack an arm, and is then not bet on."""
    if len(chunks) < 2:
        raise ValueError(
            f"chunks should hold at least two, the first of which is only trained on; got "
            f"{len(chunks)}. Deal the rows into more chunks."
        )
    _check_numbers(len(chunks), groups=groups, propensity=propensity)
    rows, labels = [], list[NDArray[Any]]()
    for k, (y, score, treated) in enumerate(chunks):
        if (score is None) != (k == 0):
            raise ValueError(
                f"score should be None in chunk 0, before any model is fitted, and given in all "
                f"others; got {'none' if score is None else 'scores'} in chunk {k}. Score chunk k "
                f"with the model of the chunks before it."
            )
        if np.size(y) == np.size(treated) == 0:
            none = None if propensity is None else np.empty(0)
            rows.append(_Rows(np.empty(0), np.empty(0), np.empty(0, bool), None, none))
            continue
        outcome = check_column(y, "y")
        given = np.empty(0) if score is None else check_column(score, "score", len(outcome))
        clusters = None
        if groups is not None:
            own, clusters = np.unique(
                check_labels(groups[k], "groups", len(outcome)), return_inverse=True
            )
            labels.append(own)
        arms = check_mask(treated, "treated", len(outcome))
        chance = None if propensity is None else check_chance(propensity[k], len(outcome))
        rows.append(_Rows(outcome, given, arms, clusters, chance))
    names, counts = np.unique(np.concatenate(labels or [np.empty(0)]), return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"a cluster should lie in one chunk, got {int((counts > 1).sum())} that reach into "
            f"another, such as {names[counts > 1][0]!r}: its rows depend on those that models "
            f"trained on. Assign whole clusters to chunks."
        )
    return rows


def _check_numbers(n_chunks: int, **columns: Sequence[ArrayLike] | None) -> None:
    for name, arrays in columns.items():
        if arrays is not None and len(arrays) != n_chunks:
            raise ValueError(
                f"{name} should be one array for each of the {n_chunks} chunks, got "
                f"{len(arrays)}. Cut the column as the rows were cut."
            )


def _range_of(rows: list[_Rows], outcome_range: tuple[float, float] | None) -> tuple[float, float]:
    y = np.concatenate([part.y for part in rows])
    if outcome_range is None:
        if not np.isin(y, (0, 1)).all():
            raise ValueError(
                f"outcomes should be 0/1, or come with outcome_range=(lowest, highest), as they "
                f"are possible, to get a guarantee; got outcomes from {y.min():g} to {y.max():g} "
                f"and no range. Pass it, or be content with the interval of auuc_inference."
            )
        return 0.0, 1.0
    return known_range(outcome_range, y.min(), y.max())


def _assumptions(low: float, high: float, n_candidates: int, rows: list[_Rows]) -> tuple[str, ...]:
    clustered = any(part.clusters is not None for part in rows)
    chances = [part.chance for part in rows if part.chance is not None]
    own = [
        randomised("clusters" if clustered else "rows", np.concatenate([*chances, np.empty(0)])),
        f"outcomes lie in [{low:g}, {high:g}]",
        "rows were assigned to chunks at random, and each model, with all its choices, comes from "
        "the chunks before the one that it is judged on",
    ]
    if n_candidates > 1:
        own.append(f"the {n_candidates} ways of making models were fixed without looking at them")
    if clustered:
        own.append("people are counted so that every cluster weighs the same")
    return tuple(own)
