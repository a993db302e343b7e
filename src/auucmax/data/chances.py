"""Chances of treatment that are known and differ between rows: by strata, waves, or exploration.

The *chance* (propensity) of a row is the probability with which it was to be treated, by design.
Three things follow from it: weights that undo it, a draw of rows that all had the same chance, and
a test of whether it can be true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, missing_message

MOST_STRATA = 20  #: different chances that are a stratum each; if there are more, bins of chances
_BINS = 10


def check_chances(column: pd.Series, name: str) -> Floats:
    """(n,) chances as numbers, all there, strictly between 0 and 1; ``name`` is for messages.

    >>> check_chances(pd.Series(["0.1", "0.9"]), "the propensity 'chance'").tolist()
    [0.1, 0.9]
    """
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(name, n_missing))
    chance = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    should = f"{name} should hold the chance of treatment that each row had, between 0 and 1"
    if np.isnan(chance).any():
        wrong = column[np.isnan(chance)].iloc[0]
        raise ValueError(f"{should}; got {wrong!r}, which is no number. Name another column.")
    if len(chance) and (chance.min() < 0 or chance.max() > 1):
        hint = " Are these per cent? Then divide by 100." if chance.max() > 1 else ""
        raise ValueError(
            f"{should}; got values from {chance.min():g} to {chance.max():g}. Name a column of "
            f"chances.{hint}"
        )
    if np.isin(chance, (0.0, 1.0)).all():
        raise ValueError(
            f"{should}; got 0 and 1 alone, as if it said who was treated. Name the column of the "
            f"chances that people had before they were drawn."
        )
    if n_sure := int(np.count_nonzero((chance == 0) | (chance == 1))):
        raise ValueError(
            f"{should}; got 0 or 1 in {n_sure:,} rows, for which nothing was left to chance: they "
            f"tell nothing of the treatment. Leave these rows out."
        )
    return chance


def own_chance(treated: Bools, chance: Floats) -> Floats:
    """(n,) the chance that a row had of the arm that it is in."""
    return np.where(treated, chance, 1 - chance)


def undo_chances(treated: Bools, chance: Floats) -> Floats:
    """(n,) weights by which rows of each arm stand for all people: share of the arm / own chance.

    The expected weight of a person is 1 whatever the chance, so that sums of weights are numbers of
    people; the same chance for all gives the same weight to all rows of an arm.

    >>> undo_chances(np.array([True, True, False, False]), np.array([0.5, 0.25, 0.5, 0.25]))
    array([1.        , 2.        , 1.        , 0.66666667])
    """
    share = float(treated.mean())
    return np.where(treated, share, 1 - share) / own_chance(treated, chance)


def even_rows(treated: Bools, chance: Floats, rng: np.random.Generator) -> Bools:
    """(n,) a draw of rows among which everybody was treated with the same chance.

    With odds o = chance / (1 - chance) and r their geometric mean, a treated row is kept with
    probability min(1, r / o), a control with min(1, o / r): among kept rows of any features the
    odds of treatment are o min(1, r / o) / min(1, o / r) = r. So tests of equal chances hold for
    them as they stand. One arm of each stratum is kept whole.
    """
    log_odds = np.log(chance) - np.log1p(-chance)
    above = log_odds - log_odds.mean()
    kept = np.exp(np.minimum(np.where(treated, -above, above), 0.0))
    # A stream of its own: data that were simulated with the same seed would go with the draw. And
    # rounding must not lose a row where all chances are the same.
    return np.asarray(rng.spawn(1)[0].random(len(chance)) < kept + 1e-9)


class ChanceTest(NamedTuple):
    """Numbers of treated rows against their chances: that of the stratum that fits worst."""

    p_value: float
    detail: str


def compare_counts(treated: Bools, chance: Floats) -> ChanceTest:
    """Are as many rows treated as the chances say, in every stratum of equal chance?

    The smallest p-value of the strata times their number. With more than 20 different chances
    strata are tenths of the rows by their chance; the number treated then varies less than a
    binomial one of the mean chance (Hoeffding 1956), so that p-values are too large, if anything.
    They are also where the number treated of a stratum was fixed.
    """
    from scipy.stats import binomtest

    code = _strata(chance)
    n = np.bincount(code)
    found = np.bincount(code, treated).astype(np.int64)
    mean = np.bincount(code, chance) / n
    tests = [
        binomtest(int(k), int(rows), float(p)).pvalue
        for k, rows, p in zip(found, n, mean, strict=True)
    ]
    worst = int(np.argmin(tests))
    p_value = min(1.0, len(tests) * float(tests[worst]))
    detail = (
        f"of {n[worst]:,} rows of chance {mean[worst]:.3g}, {found[worst] / n[worst]:.1%} treated"
    )
    return ChanceTest(p_value, detail)


def _strata(chance: Floats) -> NDArray[np.intp]:
    """(n,) rows of equal chance; where these are many, tenths by chance, equal ones together."""
    code, values = pd.factorize(np.round(chance, 9))
    if len(values) > MOST_STRATA:
        rank = pd.Series(chance).rank(method="min").to_numpy() - 1
        code = pd.factorize((rank * _BINS) // len(chance))[0]
    return np.asarray(code, dtype=np.intp)


def chances_told(chance: Floats) -> str:
    """The range of chances, in words.

    >>> chances_told(np.array([0.1, 0.9]))
    'from 0.1 to 0.9'
    """
    low, high = f"{chance.min():.3g}", f"{chance.max():.3g}"
    return f"{low} for all" if low == high else f"from {low} to {high}"
