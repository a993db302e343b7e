"""The metrics of other libraries for the same ranking, and why they differ.

All of them are areas under a curve that is drawn by going down the ranking. With ``k`` rows from
the top, of which ``t(k)`` treated and ``c(k)`` control, with outcome sums ``YT(k)`` and ``YC(k)``
(the whole arms: ``nT``, ``nC``; n = nT + nC), there are three curves:

* ``V(k) = YT(k)/nT - YC(k)/nC``: what treating the top k gains per person *of the population*.
  Used by the paper, by us, and by pylift's ``qini``.
* ``G(k) = (YT(k)/t(k) - YC(k)/c(k)) k``: the effect *inside the top k*, times k. Used by
  scikit-uplift's and CausalML's AUUC; pylift's ``cgains`` is close to ``G(k)/n``.
* ``R(k) = YT(k) - YC(k) t(k)/c(k)``: the same in units of treated rows (Radcliffe's Qini). Used by
  scikit-uplift's and CausalML's Qini; pylift's ``aqini`` is ``R(k)/nT``.

V, G/n and R/nT all end at the average effect (ATE) and have the same limit in a randomised trial.
The numbers differ because of what is done next, that is, because of the question they answer:

* *How much does this ranking gain?* The area itself: ``auuc_score``, per person. CausalML's
  ``normalize=False`` is the same in rows, so it grows with n.
* *How much more than a random ranking?* The area minus half the end point: the gain over random,
  pylift's ``Q``, CausalML's ``qini_score(normalize=False)``.
* *In units of the average effect?* CausalML's defaults divide by the end point: a random ranking
  has AUUC 1/2 and Qini 0, and values above 1 occur when the average effect is small.
* *As a share of the best possible?* scikit-uplift, and pylift's ``q1`` and ``q2``. The best ranking
  puts treated winners first and control winners last, as if outcomes were known, so even an
  excellent model has a small share, and the share depends on the base rate.

Tied scores: we average over their orders; scikit-uplift joins the ends of a tied block by a
straight line; CausalML and pylift take tied rows as they come, so their numbers change with the
row order.

The values here equal those of scikit-uplift 0.5.1, CausalML 0.18.0 and pylift 0.1.5; the tests
compare with the libraries themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_rows
from auucmax.metrics.levels import Levels

Indices = NDArray[np.intp]


def conventions(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, control: Any = None
) -> pd.DataFrame:
    """Values of all conventions in :data:`ALL_CONVENTIONS` for a ranking, one per row.

    Parameters
    ----------
    y : (n,) outcome, any real numbers (conventions that need 0/1 are NaN otherwise).
    score : (n,) higher = treated first.
    treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one.
    control : label of the control group, when ``treatment`` is not 0/1.

    Returns
    -------
    DataFrame with the columns ``name`` (how that library calls it), ``library``, ``value``,
    ``formula`` (in the notation of this module), ``order_dependent`` (whether the library's own
    number changes when rows of equal score change places) and ``note``. A value that the library
    cannot give for these rows is NaN, and the note says why.

    Examples
    --------
    >>> y = [1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0]
    >>> treatment = [1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1]
    >>> table = conventions(y, range(14, 0, -1), treatment=treatment)
    >>> print(table.loc[[0, 3, 4, 7, 11], ["library", "name", "value"]].round(4))
              library                         name   value
    0         auucmax  auuc_score(ranking='joint')  0.1756
    3         auucmax             gain over random  0.0923
    4   scikit-uplift             uplift_auc_score  0.1139
    7        CausalML   auuc_score(normalize=True)  0.5882
    11         pylift                       Q_qini  0.0923
    """
    rows = check_rows(y, score, treatment=treatment, control=control)
    sample = _Sample(rows.y, rows.score, rows.treated)
    return pd.DataFrame(
        [_evaluate(convention, sample) for convention in ALL_CONVENTIONS],
        columns=["name", "library", "value", "formula", "order_dependent", "note"],
    )


class Convention(NamedTuple):
    """One library's metric: its call, its implementation, and notes."""

    name: str
    library: str
    compute: Callable[[_Sample], float]
    formula: str
    note: str
    order_dependent: bool = False


class _Undefined(ValueError):
    """The metric is undefined in that library for these rows."""


def _evaluate(convention: Convention, sample: _Sample) -> dict[str, Any]:
    row = convention._asdict()
    compute = row.pop("compute")
    try:
        row["value"] = float(compute(sample))
    except _Undefined as reason:
        row["value"], row["note"] = float("nan"), f"NaN: {reason} {convention.note}"
    return row


# --- rows, and running totals from the top of the ranking -----------------------------------------


class _Top(NamedTuple):
    """Cumulative totals of the top k rows: k, t(k), c(k), YT(k), YC(k), from k = 0."""

    k: Floats
    treated: Floats
    control: Floats
    y_treated: Floats
    y_control: Floats


@dataclass(frozen=True)
class _Sample:
    y: Floats
    score: NDArray[Any]
    treated: Bools

    @cached_property
    def rate_treated(self) -> float:
        return float(self.y[self.treated].mean())

    @cached_property
    def rate_control(self) -> float:
        return float(self.y[~self.treated].mean())

    @property
    def effect(self) -> float:
        return self.rate_treated - self.rate_control

    @cached_property
    def levels(self) -> Levels:
        return Levels.of(self.y, self.score, treatment=self.treated)

    @cached_property
    def stable_order(self) -> Indices:
        """Highest score first, tied rows as given."""
        # Reversed twice, or the order of tied rows would be turned round.
        return len(self.y) - 1 - np.argsort(self.score[::-1], kind="stable")[::-1]

    @cached_property
    def each_row(self) -> _Top:
        return self._totals(self.stable_order)

    @cached_property
    def each_level(self) -> _Top:
        """Curve points only where the score changes, so that ties enter together."""
        sorted_score = self.score[self.stable_order]
        ends = np.flatnonzero(np.append(sorted_score[1:] != sorted_score[:-1], True)) + 1
        return _Top(*(total[np.append(0, ends)] for total in self.each_row))

    @cached_property
    def each_row_pandas(self) -> _Top:
        # Tied rows in the order of pandas' default, unstable sort: the call that CausalML makes,
        # so that we agree with it on the same machine. That order differs between processors.
        order = pd.Series(self.score).sort_values(ascending=False).index.to_numpy()
        return self._totals(order)

    @cached_property
    def successes(self) -> _Sample:
        """The outcome as pylift uses it: positive or not."""
        if self.y.min() < 0:
            raise _Undefined("pylift leaves rows with a negative outcome out of its counts.")
        return _Sample((self.y > 0).astype(np.float64), self.score, self.treated)

    def _totals(self, order: Indices) -> _Top:
        treated = self.treated[order].astype(np.float64)
        y = self.y[order]
        k = np.arange(len(y) + 1, dtype=np.float64)
        n_treated = _running(treated)
        return _Top(k, n_treated, k - n_treated, _running(y * treated), _running(y * (1 - treated)))


def _running(values: Floats) -> Floats:
    return np.append(0.0, np.cumsum(values))


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """Ratio, or 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def _ratio(numerator: float, denominator: float, what: str) -> float:
    if denominator == 0:
        raise _Undefined(f"{what} is zero.")
    return numerator / denominator


# --- the curves -----------------------------------------------------------------------------------


def _v(top: _Top) -> Floats:
    return top.y_treated / top.treated[-1] - top.y_control / top.control[-1]


def _g(top: _Top) -> Floats:
    return (_over(top.y_treated, top.treated) - _over(top.y_control, top.control)) * top.k


def _r(top: _Top) -> Floats:
    return top.y_treated - top.y_control * _over(top.treated, top.control)


def _cgains(top: _Top) -> Floats:
    # k/n with each arm counted as one half of the rows.
    share = (top.treated / top.treated[-1] + top.control / top.control[-1]) / 2
    return (_over(top.y_treated, top.treated) - _over(top.y_control, top.control)) * share


def _above_random(top: _Top, curve: Floats) -> float:
    """Area between the curve over k and the line to its end point."""
    return float(np.trapezoid(curve, top.k) - top.k[-1] * curve[-1] / 2)


# --- the paper, and us ----------------------------------------------------------------------------


def _auuc(sample: _Sample, ranking: Any = "joint") -> float:
    return sample.levels.auuc(ranking)


# --- scikit-uplift --------------------------------------------------------------------------------


def _require_binary(sample: _Sample) -> None:
    if not (((sample.y == 0) | (sample.y == 1)).all() and sample.y.any() and (sample.y == 0).any()):
        raise _Undefined("scikit-uplift needs an outcome of 0 and 1, both present.")


def _sklift(
    sample: _Sample, curve: Callable[[_Top], Floats], perfect: Callable[[Bools, Bools], Any]
) -> float:
    _require_binary(sample)
    best = _Sample(sample.y, perfect(sample.y == 1, sample.treated).astype(np.int8), sample.treated)
    area, largest = (_above_random(s.each_level, curve(s.each_level)) for s in (sample, best))
    return _ratio(area, largest, "the area of the perfect ranking above random")


def _perfect_uplift(won: Bools, treated: Bools) -> NDArray[np.int_]:
    control_wins, treated_losses = (won & ~treated).sum(), (~won & treated).sum()
    return 2 * (won == treated) + (won if control_wins > treated_losses else treated)


def _perfect_qini(won: Bools, treated: Bools) -> NDArray[np.int_]:
    return 1 * (won & treated) - 1 * (won & ~treated)


def _sklift_qini_positive(sample: _Sample) -> float:
    _require_binary(sample)
    curve = _r(sample.each_level)
    n, end = len(sample.y), float(curve[-1])
    if end < 0:
        raise _Undefined("the average effect is negative, which scikit-uplift refuses here.")
    # The perfect curve climbs with slope 1 to the end value and stays there.
    perfect = end * (n - end) / 2
    return _ratio(_above_random(sample.each_level, curve), perfect, "the average effect")


# --- CausalML -------------------------------------------------------------------------------------


def _from_first_known(top: _Top, curve: Floats, known: Bools) -> Floats:
    """Extend a curve linearly from 0 to the first defined k."""
    # At k = 0 nobody is treated, and the curve is 0.
    known[0] = True
    return np.interp(top.k, top.k[known], curve[known])


def _causalml_gain(sample: _Sample) -> Floats:
    top = sample.each_row_pandas
    lift = _over(top.y_treated, top.treated) - _over(top.y_control, top.control)
    return _from_first_known(top, lift, (top.treated > 0) & (top.control > 0)) * top.k


def _causalml_qini(sample: _Sample) -> Floats:
    top = sample.each_row_pandas
    return _from_first_known(top, _r(top), top.control > 0)


def _causalml(
    sample: _Sample, curve: Callable[[_Sample], Floats], *, random: float, normalize: bool
) -> float:
    values = curve(sample)
    end = float(values[-1])
    area = float(values.mean()) - random * end
    return _ratio(area, abs(end), "the average effect") if normalize else area


# --- pylift ---------------------------------------------------------------------------------------


def _pylift(
    sample: _Sample,
    curve: Callable[[_Top], Floats],
    best: Callable[[_Sample], float] | None = None,
) -> float:
    top = sample.successes.each_row
    q = _above_random(top, curve(top)) / top.k[-1]
    return q if best is None else _ratio(q, best(sample), "the largest possible Q")


def _pylift_max(sample: _Sample) -> float:
    p, q = sample.successes.rate_treated, sample.successes.rate_control
    return (p + q) / 2 - (p**2 + q**2) / 4


def _pylift_practical_max(sample: _Sample) -> float:
    p, q = sample.successes.rate_treated, sample.successes.rate_control
    if p + q > 1:
        return (1 - (p - q) ** 2) / 4
    return (p + q) / 2 - (p**2 + q**2) / 2


# --- the table ------------------------------------------------------------------------------------

_SKLIFT_NOTE = "Outcome 0/1 only. A constant score gives 0, its perfect ranking 1."
_CAUSALML_NOTE = (
    "Tied rows in the order of an unstable sort, which differs between processors. "
    "For frames without a column 'tau', which CausalML would use instead of the outcome."
)
_PYLIFT_NOTE = (
    "With pylift's p='infer'. Any positive outcome counts as 1. Tied rows in the order given."
)

_PAPER = (
    Convention(
        "auuc_score(ranking='joint')",
        "auucmax",
        _auuc,
        "area under V(k) over k/n = mean(y u | treated) - mean(y u | control), "
        "u = 1 - (rank - 1/2)/n",
        "The number in the paper's tables. A constant score gives ATE/2. Ties averaged.",
    ),
    Convention(
        "auuc_score(ranking='separate')",
        "auucmax",
        partial(_auuc, ranking="separate"),
        "mean(y u | treated) - mean(y u | control), u from ranks inside each arm",
        "Proposition 1 of the paper, which its bound is about. Near the joint value for large n.",
    ),
    Convention(
        "Definition 1",
        "paper",
        lambda sample: _auuc(sample) + sample.effect / (2 * len(sample.y)),
        "(1/n) sum of V(k) over k = 1..n = auuc_score + ATE/(2n)",
        "Bars instead of trapezoids; the paper prints it without the 1/n. Ties averaged.",
    ),
    Convention(
        "gain over random",
        "auucmax",
        lambda sample: _auuc(sample) - sample.effect / 2,
        "auuc_score - ATE/2",
        "What the ranking adds to treating the same number of people at random; outcomes are not "
        "centred here, while auuc_inference centres them, which has less noise.",
    ),
)

_SKLIFT = (
    Convention(
        "uplift_auc_score",
        "scikit-uplift",
        partial(_sklift, curve=_g, perfect=_perfect_uplift),
        "(area under G(k) - n G(n)/2) / (the same for the perfect ranking)",
        _SKLIFT_NOTE,
    ),
    Convention(
        "qini_auc_score(negative_effect=True)",
        "scikit-uplift",
        partial(_sklift, curve=_r, perfect=_perfect_qini),
        "(area under R(k) - n R(n)/2) / (the same for the perfect ranking)",
        f"The default. {_SKLIFT_NOTE}",
    ),
    Convention(
        "qini_auc_score(negative_effect=False)",
        "scikit-uplift",
        _sklift_qini_positive,
        "(area under R(k) - n R(n)/2) / (R(n) (n - R(n))/2)",
        "Outcome 0/1 only. Perfect here means that nobody is harmed, so values above 1 occur.",
    ),
)

_CAUSALML = tuple(
    Convention(
        f"{name}(normalize={normalize})",
        "CausalML",
        partial(_causalml, curve=curve, random=random, normalize=normalize),
        f"({area}) / |{letter}(n)|" if normalize else area,
        (f"A random ranking gives about {random_value}. " if normalize else "Grows with n. ")
        + _CAUSALML_NOTE,
        order_dependent=True,
    )
    for name, curve, letter, random, area, random_value in (
        ("auuc_score", _causalml_gain, "G", 0.0, "mean of G(k) over k = 0..n", "1/2 or -1/2"),
        ("qini_score", _causalml_qini, "R", 0.5, "mean of R(k) over k = 0..n, minus R(n)/2", "0"),
    )
    for normalize in (True, False)
)

_PYLIFT = (
    *(
        Convention(
            f"{letter}_{name}",
            "pylift",
            partial(_pylift, curve=curve, best=best),
            f"(area under {formula} over k/n, minus ATE/2){divisor}",
            f"{_PYLIFT_NOTE} {more}".strip(),
            order_dependent=True,
        )
        for name, curve, formula, more in (
            ("qini", _v, "V(k)", "Q_qini equals the gain over random if no scores tie."),
            ("cgains", _cgains, "(YT(k)/t(k) - YC(k)/c(k)) (t(k)/nT + c(k)/nC)/2", ""),
            ("aqini", lambda top: _r(top) / top.treated[-1], "R(k)/nT", ""),
        )
        for letter, best, divisor in (
            ("Q", None, ""),
            ("q1", _pylift_max, " / Q_max"),
            ("q2", _pylift_practical_max, " / Q_practical_max"),
        )
    ),
    Convention(
        "Q_max",
        "pylift",
        _pylift_max,
        "(pT + pC)/2 - (pT^2 + pC^2)/4, pT and pC the success rates of the arms",
        "Depends on the data only, not on the ranking. Any positive outcome counts as 1.",
    ),
    Convention(
        "Q_practical_max",
        "pylift",
        _pylift_practical_max,
        "(pT + pC)/2 - (pT^2 + pC^2)/2; (1 - ATE^2)/4 if pT + pC > 1",
        "Depends on the data only. If pT + pC <= 1 it is the largest possible gain over random "
        "of the separate ranking.",
    ),
)

ALL_CONVENTIONS: tuple[Convention, ...] = (*_PAPER, *_SKLIFT, *_CAUSALML, *_PYLIFT)
