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

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_rows
from auucmax.metrics.intervals import ratio
from auucmax.metrics.levels import Levels

_SKLIFT_NOTE = "Outcome 0/1 only. A constant score gives 0, its perfect ranking 1."
_CAUSALML_NOTE = (
    "Tied rows in the order of an unstable sort, which differs between processors. "
    "For frames without a column 'tau', which CausalML would use instead of the outcome."
)
_PYLIFT_NOTE = (
    "With pylift's p='infer'. Any positive outcome counts as 1. Tied rows in the order given."
)


def conventions(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, control: Any = None
) -> pd.DataFrame:
    """Values of all conventions of this module for a ranking, one per row.

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
    won, treated = rows.y, rows.treated
    effect = float(won[treated].mean() - won[~treated].mean())
    order = np.argsort(-rows.score, kind="stable")
    levels = Levels(rows)
    auuc = levels.auuc()
    found: list[tuple[Any, ...]] = []

    def add(
        library: str, name: str, value: float | str, formula: str, note: str, *, order: bool = False
    ) -> None:
        """Add a line; a value that is a string is the reason why there is none."""
        if isinstance(value, str):
            value, note = np.nan, f"NaN: {value} {note}"
        found.append((name, library, value, formula, order, note))

    add(
        "auucmax", "auuc_score(ranking='joint')", auuc,
        "area under V(k) over k/n = mean(y u | treated) - mean(y u | control), "
        "u = 1 - (rank - 1/2)/n",
        "The number in the paper's tables. A constant score gives ATE/2. Ties averaged.",
    )  # fmt: skip
    add(
        "auucmax", "auuc_score(ranking='separate')", levels.auuc("separate"),
        "mean(y u | treated) - mean(y u | control), u from ranks inside each arm",
        "Proposition 1 of the paper, which its bound is about. Near the joint value for large n.",
    )  # fmt: skip
    add(
        "paper", "Definition 1", auuc + effect / (2 * len(won)),
        "(1/n) sum of V(k) over k = 1..n = auuc_score + ATE/(2n)",
        "Bars instead of trapezoids; the paper prints it without the 1/n. Ties averaged.",
    )  # fmt: skip
    add(
        "auucmax", "gain over random", auuc - effect / 2,
        "auuc_score - ATE/2",
        "What the ranking adds to treating the same number of people at random; outcomes are "
        "not centred here, while auuc_inference centres them, which has less noise.",
    )  # fmt: skip

    # scikit-uplift: curve points only where the score changes, so that ties enter together.
    success = won == 1
    control_wins = (success & ~treated).sum()
    treated_losses = (~success & treated).sum()
    top = _top(won, treated, order, rows.score)
    end, n = float(top.r[-1]), len(won)
    shares: list[float | str] = []
    for curve, perfect in (
        ("g", 2 * (success == treated) + (success if control_wins > treated_losses else treated)),
        ("r", success * np.where(treated, 1, -1)),
    ):
        best = _top(won, treated, np.argsort(-perfect, kind="stable"), perfect)
        area, largest = (_above_random(own.k, getattr(own, curve)) for own in (top, best))
        shares.append(_ratio(area, largest, "the area of the perfect ranking above random"))
    # The perfect curve climbs with slope 1 to the end value and stays there.
    shares.append(_ratio(_above_random(top.k, top.r), end * (n - end) / 2, "the average effect"))
    if end < 0:
        shares[2] = "the average effect is negative, which scikit-uplift refuses here."
    if not (np.isin(won, (0.0, 1.0)).all() and 0 < success.sum() < n):
        shares = ["scikit-uplift needs an outcome of 0 and 1, both present."] * 3
    add(
        "scikit-uplift", "uplift_auc_score", shares[0],
        "(area under G(k) - n G(n)/2) / (the same for the perfect ranking)", _SKLIFT_NOTE,
    )  # fmt: skip
    add(
        "scikit-uplift", "qini_auc_score(negative_effect=True)", shares[1],
        "(area under R(k) - n R(n)/2) / (the same for the perfect ranking)",
        f"The default. {_SKLIFT_NOTE}",
    )  # fmt: skip
    add(
        "scikit-uplift", "qini_auc_score(negative_effect=False)", shares[2],
        "(area under R(k) - n R(n)/2) / (R(n) (n - R(n))/2)",
        "Outcome 0/1 only. Perfect here means that nobody is harmed, so values above 1 occur.",
    )  # fmt: skip

    # CausalML: tied rows in the order of pandas' default, unstable sort: the call that it makes, so
    # that we agree with it on the same machine. That order differs between processors.
    unstable = pd.Series(rows.score).sort_values(ascending=False).index.to_numpy()
    top = _top(won, treated, unstable)
    in_top = _from_first_known(top, top.lift, (top.treated > 0) & (top.control > 0)) * top.k
    for name, values, area_is, random, letter, random_value in (
        ("auuc_score", in_top, "mean of G(k) over k = 0..n", 0.0, "G", "1/2 or -1/2"),
        (
            "qini_score", _from_first_known(top, top.r, top.control > 0),
            "mean of R(k) over k = 0..n, minus R(n)/2", 0.5, "R", "0",
        ),
    ):  # fmt: skip
        end = float(values[-1])
        area = float(values.mean()) - random * end
        add(
            "CausalML", f"{name}(normalize=True)", _ratio(area, abs(end), "the average effect"),
            f"({area_is}) / |{letter}(n)|",
            f"A random ranking gives about {random_value}. {_CAUSALML_NOTE}", order=True,
        )  # fmt: skip
        add(
            "CausalML", f"{name}(normalize=False)", area, area_is,
            f"Grows with n. {_CAUSALML_NOTE}", order=True,
        )  # fmt: skip

    # pylift: the outcome is positive or not.
    top = _top((won > 0).astype(np.float64), treated, order)
    p, q = float((won[treated] > 0).mean()), float((won[~treated] > 0).mean())
    most = (p + q) / 2 - (p**2 + q**2) / 4
    practical = (1 - (p - q) ** 2) / 4 if p + q > 1 else (p + q) / 2 - (p**2 + q**2) / 2
    # k/n with each arm counted as one half of the rows.
    share = (top.treated / top.treated[-1] + top.control / top.control[-1]) / 2
    refused = "pylift leaves rows with a negative outcome out of its counts."
    refused = refused if won.min() < 0 else ""
    for name, values, formula, note in (
        (
            "qini", top.v, "V(k)",
            f"{_PYLIFT_NOTE} Q_qini equals the gain over random if no scores tie.",
        ),
        (
            "cgains", top.lift * share, "(YT(k)/t(k) - YC(k)/c(k)) (t(k)/nT + c(k)/nC)/2",
            _PYLIFT_NOTE,
        ),
        ("aqini", top.r / top.treated[-1], "R(k)/nT", _PYLIFT_NOTE),
    ):  # fmt: skip
        gain = _above_random(top.k, values) / n
        formula = f"(area under {formula} over k/n, minus ATE/2)"
        add("pylift", f"Q_{name}", refused or gain, formula, note, order=True)
        for letter, largest, unit in (("q1", most, "Q_max"), ("q2", practical, "Q_practical_max")):
            part = refused or _ratio(gain, largest, "the largest possible Q")
            add("pylift", f"{letter}_{name}", part, f"{formula} / {unit}", note, order=True)
    add(
        "pylift", "Q_max", refused or most,
        "(pT + pC)/2 - (pT^2 + pC^2)/4, pT and pC the success rates of the arms",
        "Depends on the data only, not on the ranking. Any positive outcome counts as 1.",
    )  # fmt: skip
    add(
        "pylift", "Q_practical_max", refused or practical,
        "(pT + pC)/2 - (pT^2 + pC^2)/2; (1 - ATE^2)/4 if pT + pC > 1",
        "Depends on the data only. If pT + pC <= 1 it is the largest possible gain over random "
        "of the separate ranking.",
    )  # fmt: skip
    columns = ["name", "library", "value", "formula", "order_dependent", "note"]
    return pd.DataFrame(found, columns=columns)


class _Top(NamedTuple):
    """The top k rows, from k = 0: k, t(k), c(k), and curves; ``lift`` is G(k) / k."""

    k: Floats
    treated: Floats
    control: Floats
    v: Floats
    lift: Floats
    g: Floats
    r: Floats


def _top(
    y: Floats, treated: Bools, order: NDArray[np.intp], score: NDArray[Any] | None = None
) -> _Top:
    """Totals from the top of an order; with the ``score``, only where it changes."""
    y, own = y[order], treated[order]
    rows = np.array([np.ones(len(y)), own, ~own, own * y, ~own * y])
    totals = np.cumsum(np.pad(rows, ((0, 0), (1, 0))), axis=1)
    if score is not None:
        totals = totals[:, np.append(0, np.flatnonzero(np.diff(score[order], append=np.nan)) + 1)]
    k, t, c, y_treated, y_control = totals
    lift = ratio(y_treated, t) - ratio(y_control, c)
    return _Top(
        k=k,
        treated=t,
        control=c,
        v=y_treated / t[-1] - y_control / c[-1],
        lift=lift,
        g=lift * k,
        r=y_treated - y_control * ratio(t, c),
    )


def _ratio(numerator: float, denominator: float, what: str) -> float | str:
    """Ratio, or why it is not defined."""
    return f"{what} is zero." if denominator == 0 else numerator / denominator


def _above_random(k: Floats, curve: Floats) -> float:
    """Area between the curve over k and the line to its end point."""
    return float(np.trapezoid(curve, k) - k[-1] * curve[-1] / 2)


def _from_first_known(top: _Top, curve: Floats, known: Bools) -> Floats:
    """Extend a curve linearly from 0 to the first defined k."""
    # At k = 0 nobody is treated, and the curve is 0.
    known[0] = True
    return np.interp(top.k, top.k[known], curve[known])
