"""Known treatment probabilities that differ between rows, by design.

The *chance* (propensity) of a row is the probability with which it was to be treated, by design.
Three things follow from it: weights that undo it, a draw of rows that all had the same chance, and
a test of whether it can be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from auucmax._errors import InputError
from auucmax._validation import (
    Bools,
    Floats,
    listed,
    unknown_columns,
)

MOST_STRATA = 20  #: different chances that are a stratum each; if there are more, bins of chances
_BINS = 10


def check_chances(column: pd.Series, name: str) -> Floats:
    """Validate propensities (n,), strictly between 0 and 1; ``name`` is for messages.

    >>> check_chances(pd.Series(["0.1", "0.9"]), "the propensity 'chance'").tolist()
    [0.1, 0.9]
    """
    chance = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if (wrong := ~((chance > 0) & (chance < 1))).any():
        raise InputError(
            name, "the chance of treatment that each row had, above 0 and below 1, in every row",
            f"{listed(column[wrong].unique())} in {wrong.sum():,} rows",
            "If these are per cent, divide by 100. Leave out rows with missing values, 0 or "
            "1, for which nothing was left to chance.",
        )  # fmt: skip
    return chance


ArmColumns = tuple[tuple[str, ...], ...]  #: (arm, column with its chance) of each arm but one


def arm_columns(
    given: Mapping[str, str] | str, labels: Iterable[str], columns: Sequence[str]
) -> ArmColumns:
    """Propensity columns of all labels but one, whose propensity is the rest.

    ``given``: by label; or the word that columns begin with, as ``assign`` writes them.

    >>> arm_columns("chance", ["no", "mail", "call"], ["age", "chance call", "chance mail"])
    (('call', 'chance call'), ('mail', 'chance mail'))
    """
    known, named = sorted(labels), given
    if isinstance(named, str):
        named = {label: f"{given} {label}" for label in known if f"{given} {label}" in columns}
    if not {*named} < {*known} or not len(named) == len({*named.values()}) == len(known) - 1:
        raise InputError(
            "propensity", f"a column for each arm of {listed(known)}, but for the control, which "
            f"has the rest", repr(given),
            'Name them by arm, as in "A=chance A,B=chance B" (in Python: a mapping of labels to '
            "columns).",
        )  # fmt: skip
    if missing := [column for column in named.values() if column not in columns]:
        raise unknown_columns("the table", missing, list(columns))
    return tuple((label, named[label]) for label in sorted(named))


def arm_chances(frame: pd.DataFrame, named: ArmColumns, labels: Sequence[str]) -> Floats:
    """Validate propensities, strictly between 0 and 1, and order them by label, (n, labels).

    The control, which has no column, has the rest.

    >>> frame = pd.DataFrame({"a": [0.25, 0.5], "b": [0.25, 0.25]})
    >>> arm_chances(frame, (("mail", "a"), ("call", "b")), ["no", "call"]).tolist()
    [[0.5, 0.25], [0.25, 0.25]]
    """
    own = {label: check_chances(frame[column], f"the propensity {column!r}")
           for label, column in named}  # fmt: skip
    rest = 1 - np.sum([*own.values()], axis=0)
    if len(rest) and rest.min() < 1e-9:
        raise InputError(
            f"the propensities {listed(column for _, column in named)}",
            "less than 1 together in every row, for the control has the rest",
            f"1 or more in {np.count_nonzero(rest < 1e-9):,} rows, up to {1 - rest.min():.3g}",
            "Name the columns of the propensities of the arms.",
        )  # fmt: skip
    return np.column_stack([own.get(label, rest) for label in labels])


def own_chance(treated: Bools, chance: Floats) -> Floats:
    """Probability of the arm that each row received, (n,)."""
    return np.where(treated, chance, 1 - chance)


def chance_weights(treated: Bools, chance: Floats, people: Floats | None = None) -> Floats:
    """Inverse-propensity weights, (n,): share of the arm / own propensity.

    The expected weight of a person is 1 whatever the chance, so that sums of weights are numbers of
    people; the same chance for all gives the same weight to all rows of an arm. ``people``: how
    many people a row stands for, where not everybody was as likely to be among the rows.

    >>> treated, chance = np.array([True, True, False, False]), np.array([0.5, 0.25, 0.5, 0.25])
    >>> chance_weights(treated, chance)
    array([1.        , 2.        , 1.        , 0.66666667])
    """
    share = float(treated.mean())
    weight = np.where(treated, share, 1 - share) / own_chance(treated, chance)
    return weight if people is None else weight * people / float(people.mean())


def even_rows(treated: Bools, chance: Floats, rng: np.random.Generator) -> Bools:
    """Draw rows so that all of them had the same propensity; returns a mask (n,).

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


def compare_counts(treated: Bools, chance: Floats) -> tuple[float, str]:
    """Test the treated counts in strata of equal propensity: p-value and the worst stratum.

    The smallest p-value of the strata times their number. With more than 20 different chances
    strata are tenths of the rows by their chance; the number treated then varies less than a
    binomial one of the mean chance (Hoeffding 1956), so that p-values are too large, if anything.
    They are also where the number treated of a stratum was fixed.
    """
    from scipy.stats import binomtest

    code, values = pd.factorize(np.round(chance, 9))
    if len(values) > MOST_STRATA:
        rank = pd.Series(chance).rank(method="min").to_numpy() - 1
        code = pd.factorize(rank * _BINS // len(chance))[0]
    n = np.bincount(code)
    found = np.bincount(code, treated).astype(np.int64)
    mean = np.bincount(code, chance) / n
    strata = zip(found.tolist(), n.tolist(), mean.tolist(), strict=True)
    tests = [float(binomtest(*stratum).pvalue) for stratum in strata]
    worst = int(np.argmin(tests))
    share = found[worst] / n[worst]
    detail = f"of {n[worst]:,} rows of chance {mean[worst]:.3g}, {share:.1%} treated"
    return min(1.0, len(tests) * tests[worst]), detail
