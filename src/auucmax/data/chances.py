"""Known treatment probabilities that differ between rows, by design.

The *chance* (propensity) of a row is the probability with which it was to be treated, by design.
Three things follow from it: weights that undo it, a draw of rows that all had the same chance, and
a test of whether it can be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import (
    Bools,
    Floats,
    listed,
    missing_message,
    unknown_columns_message,
)

MOST_STRATA = 20  #: different chances that are a stratum each; if there are more, bins of chances
_BINS = 10


def check_chances(column: pd.Series, name: str) -> Floats:
    """Validate propensities (n,), strictly between 0 and 1; ``name`` is for messages.

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


ArmColumns = tuple[tuple[str, ...], ...]  #: (arm, column with its chance) of each arm but one


def arm_columns(
    given: Mapping[str, str] | str, labels: Iterable[str], columns: Sequence[str]
) -> ArmColumns:
    """Propensity columns of several arms: of all labels but one, which has the rest.

    ``given``: by label; or the word that columns begin with, as ``assign`` writes them.

    >>> arm_columns("chance", ["no", "mail", "call"], ["age", "chance call", "chance mail"])
    (('call', 'chance call'), ('mail', 'chance mail'))
    """
    known = sorted(labels)
    named = given
    if isinstance(named, str):
        pairs = {label: f"{given} {label}" for label in known}
        named = {label: column for label, column in pairs.items() if column in columns}
    if unknown := [label for label in named if label not in known]:
        raise ValueError(
            f"propensity should name arms, {listed(known)}; got {listed(unknown)}. Check the "
            f"spelling."
        )
    without = [label for label in known if label not in named]
    if len(without) != 1:
        got = f"none for {listed(without)}" if without else "one for every arm"
        raise ValueError(
            f"propensity should name a column with the chance of each arm, but of the control, "
            f'which has the rest; got {got}. Name them by arm, as in "A=chance A,B=chance B" (in '
            f"Python: a mapping of labels to columns)."
        )
    if missing := [column for column in named.values() if column not in columns]:
        raise ValueError(unknown_columns_message("the table", missing, list(columns)))
    if len(set(named.values())) < len(named):
        raise ValueError(
            f"propensity should name another column for each arm, got "
            f"{listed(named.values())}. Check the names."
        )
    return tuple((label, named[label]) for label in sorted(named))


def check_arm_chances(frame: pd.DataFrame, named: ArmColumns) -> Floats:
    """Validate propensities (n, K + 1) of all arms, strictly between 0 and 1.

    >>> frame = pd.DataFrame({"a": [0.25, 0.5], "b": [0.25, 0.25]})
    >>> check_arm_chances(frame, (("mail", "a"), ("call", "b"))).tolist()
    [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
    """
    own = [check_chances(frame[column], f"the propensity {column!r}") for _, column in named]
    rest = 1 - np.sum(own, axis=0)
    if len(rest) and rest.min() < 1e-9:
        n_over, columns = int(np.count_nonzero(rest < 1e-9)), [column for _, column in named]
        raise ValueError(
            f"the propensities {listed(columns)} should add up to less than 1 in every row, for "
            f"the control has the rest; got 1 or more in {n_over:,} rows, up to "
            f"{1 - rest.min():.3g}. Name the columns of the chances of the arms."
        )
    return np.column_stack([rest, *own])


def of_labels(chances: Floats, named: ArmColumns, labels: Sequence[str]) -> Floats:
    """Propensities of these labels, (n, labels), from those of all arms.

    >>> of_labels(np.array([[0.5, 0.2, 0.3]]), (("a", ""), ("b", "")), ["b", "no"]).tolist()
    [[0.3, 0.5]]
    """
    places = {label: k for k, (label, _) in enumerate(named, start=1)}
    return chances[:, [places.get(label, 0) for label in labels]]


def own_chance(treated: Bools, chance: Floats) -> Floats:
    """Probability of the arm that each row received, (n,)."""
    return np.where(treated, chance, 1 - chance)


class ChanceWeights(NamedTuple):
    """Inverse-propensity weights: share of the arm / own propensity.

    The expected weight of a person is 1 whatever the chance, so that sums of weights are numbers of
    people; the same chance for all gives the same weight to all rows of an arm. ``people``: how
    many people a row stands for on average, where not everybody was as likely to be among the rows.

    >>> treated, chance = np.array([True, True, False, False]), np.array([0.5, 0.25, 0.5, 0.25])
    >>> ChanceWeights.of(treated)(treated, chance)
    array([1.        , 2.        , 1.        , 0.66666667])
    """

    share: float
    people: float = 1.0

    @classmethod
    def of(cls, treated: Bools, people: Floats | None = None) -> ChanceWeights:
        """Make the weights from all rows of a trial."""
        return cls(float(treated.mean()), 1.0 if people is None else float(people.mean()))

    def __call__(self, treated: Bools, chance: Floats, people: Floats | None = None) -> Floats:
        """Weights of these rows, (n,)."""
        weight = np.where(treated, self.share, 1 - self.share) / own_chance(treated, chance)
        return weight if people is None else weight * people / self.people


def even_rows(treated: Bools, chance: Floats, rng: np.random.Generator) -> Bools:
    """A random subset of rows in which all had the same propensity, as a mask (n,).

    With odds o = chance / (1 - chance) and r their geometric mean, a treated row is kept with
    probability min(1, r / o), a control with min(1, o / r): among kept rows of any features the
    odds of treatment are o min(1, r / o) / min(1, o / r) = r. So tests of equal chances hold for
    them as they stand. One arm of each stratum is kept whole.
    """
    log_odds = np.log(chance) - np.log1p(-chance)
    above = log_odds - log_odds.mean()
    kept = np.exp(np.minimum(np.where(treated, -above, above), 0.0))
    # A separate stream: data that were simulated with the same seed would go with the draw. And
    # rounding must not lose a row where all chances are the same.
    return np.asarray(rng.spawn(1)[0].random(len(chance)) < kept + 1e-9)


class ChanceTest(NamedTuple):
    """Test of treated counts against propensities: the worst-fitting stratum."""

    p_value: float
    detail: str


def compare_counts(treated: Bools, chance: Floats) -> ChanceTest:
    """Test the treated counts in strata of equal propensity.

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
    """Strata of equal propensity; tenths by propensity if there are many."""
    code, values = pd.factorize(np.round(chance, 9))
    if len(values) > MOST_STRATA:
        rank = pd.Series(chance).rank(method="min").to_numpy() - 1
        code = pd.factorize((rank * _BINS) // len(chance))[0]
    return np.asarray(code, dtype=np.intp)


def chances_told(chance: Floats) -> str:
    """The range of propensities in words.

    >>> chances_told(np.array([0.1, 0.9]))
    'from 0.1 to 0.9'
    """
    low, high = f"{chance.min():.3g}", f"{chance.max():.3g}"
    return f"{low} for all" if low == high else f"from {low} to {high}"
