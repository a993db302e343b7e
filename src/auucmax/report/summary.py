"""``summarise``: every number and sentence of the report as one plain dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._json import plain
from auucmax._validation import Floats, Rows, check_column, check_groups, check_rows, check_shares
from auucmax.bounds import Certificate
from auucmax.data import RandomisationReport
from auucmax.evaluation import (
    UpliftBand,
    auuc_difference,
    auuc_inference,
    policy_risk,
    uplift_by_decile,
    uplift_curve,
)
from auucmax.report import sentences
from auucmax.report.caveats import caveats_of
from auucmax.report.drivers import describe_drivers, linear_weights
from auucmax.report.plain import digits_for, short
from auucmax.report.shares import (
    GRID,
    Economy,
    describe_plan,
    effect_of,
    ratio_interval,
    reliable_shares,
)
from auucmax.targeting import Calibration, Plan, calibration_table, plan

__all__ = ["VERSION", "Names", "summarise"]

VERSION = 1
MOST_DIFFERENCES = 20


@dataclass(frozen=True)
class Names:
    """What things are called on the page: text from anywhere, shown as text."""

    outcome: str = "the outcome"
    treatment: str = "treatment"
    treated: str = "the treatment"
    control: str = "no treatment"
    model: str = "this ranking"
    trial: str = "trial"

    def to_dict(self) -> dict[str, str]:
        return {name: short(text) for name, text in asdict(self).items()}


def summarise(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    features: pd.DataFrame | None = None,
    groups: ArrayLike | None = None,
    calibration: Calibration | None = None,
    rivals: Mapping[str, ArrayLike] | None = None,
    linear: tuple[ArrayLike, pd.DataFrame] | None = None,
    names: Names | None = None,
    economy: Economy | None = None,
    share: float = 0.3,
    level: float = 0.95,
    certificate: Certificate | None = None,
    randomisation: RandomisationReport | None = None,
    notes: Sequence[str] = (),
    doubt: str | None = None,
    control: Any = None,
    random_state: int | Generator | None = 0,
) -> dict[str, Any]:
    """Judge a ranking on held-out rows: all numbers of the report, as plain JSON.

    Parameters
    ----------
    y, score, treatment : (n,) outcome, score (higher = treat first) and treatment of rows that
        the score was not fitted on; ``control`` names the control label if treatment is not 0/1.
    features : (n, d) raw features of the same rows, for "what drives the score".
    groups : (n,) household or shop of each row; intervals are then by group.
    calibration : from :func:`auucmax.targeting.calibrate` on yet other rows, for the tenths.
    rivals : name to (n,) score of other rankings of the same rows.
    linear : coefficients (p,) of a linear score, and the frame (n, p) that they multiply.
    names : :class:`Names`; economy : :class:`Economy` (cohort, cost, value).
    share : the share of the headline, a whole per cent.
    level : of all intervals.
    certificate : from :func:`auucmax.certify`; randomisation : from
        :func:`auucmax.check_randomisation`.
    notes : sentences to add at the end of the page.
    doubt : why the score may have been fitted on these rows after all, in a sentence.

    The numbers along the share are on a grid of 101 shares; their intervals hold at all of them
    together. ``version`` says how the dictionary is laid out.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> found = summarise(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> print(found["headline"]["text"])
    Treating the 30% of people with the highest scores gives 49% of the effect of treating everyone
    (95% interval 45% to 54%, for all shares at once); the same number picked at random would give
    30%.
    """
    names, economy = names or Names(), economy or Economy()
    rows = check_rows(y, score, treatment=treatment, control=control)
    codes = None if groups is None else check_groups(groups, len(rows.y))
    at = _grid_place(share)
    binary = bool(np.isin(rows.y, (0.0, 1.0)).all())
    judge = _Judge(rows, codes, level)
    found = judge.plan(economy, random_state)
    band = found.band
    reliable = reliable_shares(rows, band.share, binary=binary)
    found = found.with_peaks_among(reliable)
    risk = np.asarray(judge.risk()) if binary else None
    summary: dict[str, Any] = {
        "kind": "auucmax report",
        "version": VERSION,
        "level": level,
        "names": names.to_dict(),
        "rows": _describe_rows(rows, codes, binary=binary) | {"doubt": doubt},
        "unit": _unit(band, binary=binary),
        "randomisation": _randomisation(randomisation),
        "effect": effect_of(band),
        "score": {"levels": len(np.unique(rows.score))},
        "auuc": judge.auuc(rows.score),
        "curve": _curve(band) | {"reliable": reliable},
        "rivals": [judge.rival(name, other) for name, other in (rivals or {}).items()],
        "plan": describe_plan(found, economy, risk),
        "headline": _headline(band, at),
        "deciles": _deciles(rows, calibration, level),
        "drivers": _drivers(features, rows, linear, share),
        "certificate": _certificate(certificate),
        "notes": [str(note) for note in notes],
    }
    summary = dict(plain(summary))
    return _with_sentences(summary)


@dataclass(frozen=True)
class _Judge:
    """What is computed for the ranking and for each rival alike."""

    rows: Rows
    codes: NDArray[np.intp] | None
    level: float

    def plan(self, economy: Economy, random_state: int | Generator | None) -> Plan:
        return plan(
            self.rows.y,
            self.rows.score,
            treatment=self.rows.treated,
            n_people=economy.cohort,
            value=1.0 if economy.value is None else economy.value,
            cost=0.0 if economy.cost is None else economy.cost,
            shares=GRID,
            level=self.level,
            groups=self.codes,
            random_state=random_state,
        )

    def risk(self) -> float | Floats:
        return policy_risk(self.rows.y, self.rows.score, treatment=self.rows.treated, share=GRID)

    def auuc(self, score: ArrayLike) -> dict[str, Any]:
        with warnings.catch_warnings():
            # A constant score is told of among the caveats.
            warnings.filterwarnings("ignore", message="score should tell rows apart")
            found = auuc_inference(
                self.rows.y,
                score,
                treatment=self.rows.treated,
                groups=self.codes,
                level=self.level,
            )
        return {
            "estimate": found.estimate,
            "lower": found.interval[0],
            "upper": found.interval[1],
            "gain": found.gain,
            "gain_lower": found.gain_interval[0],
            "gain_upper": found.gain_interval[1],
            "p_value": found.p_value,
        }

    def rival(self, name: str, score: ArrayLike) -> dict[str, Any]:
        """Curve and AUUC of a rival, and the AUUC of the ranking minus that of the rival."""
        treated = self.rows.treated
        other = check_column(score, f"rivals[{short(name)!r}]", len(self.rows.y))
        found = auuc_difference(
            self.rows.y,
            self.rows.score,
            other,
            treatment=treated,
            groups=self.codes,
            level=self.level,
        )
        lower, upper = found.interval
        verdict = "worse" if lower > 0 else "better" if upper < 0 else "not told apart"
        return {
            "name": short(name),
            "uplift": np.interp(GRID, *uplift_curve(self.rows.y, other, treatment=treated)),
            "auuc": self.auuc(other),
            "difference": {
                "estimate": found.estimate,
                "lower": lower,
                "upper": upper,
                "p_value": found.p_value,
            },
            "verdict": verdict,
        }


def _grid_place(share: float) -> int:
    value = float(check_shares(share)[0])
    place = round(value * 100)
    if np.ndim(share) or abs(value * 100 - place) > 1e-9 or not 0 < place <= 100:
        raise ValueError(
            f"share should be one whole per cent, from 0.01 to 1; got {share!r}. "
            f"0.3 means the top 30 percent."
        )
    return place


def _describe_rows(rows: Rows, codes: Any, *, binary: bool) -> dict[str, Any]:
    treated, y = rows.treated, rows.y
    found: dict[str, Any] = {"n_rows": len(y), "binary": binary, "groups": None}
    for name, arm in (("treated", treated), ("control", ~treated)):
        found[name] = int(arm.sum())
        found[f"mean_{name}"] = float(y[arm].mean())
        found[f"events_{name}"] = int(y[arm].sum()) if binary else None
        found[f"groups_{name}"] = None if codes is None else len(np.unique(codes[arm]))
    if codes is not None:
        found["groups"] = int(codes.max()) + 1
    return found


def _unit(band: UpliftBand, *, binary: bool) -> dict[str, Any]:
    scale = 100 if binary else 1
    digits = digits_for(float(band.standard_error[-1]) * scale)
    return {"scale": scale, "digits": digits, "per": "per 100 people" if binary else "per person"}


def _curve(band: UpliftBand) -> dict[str, Any]:
    return {
        "share": band.share,
        "uplift": band.uplift,
        "lower": band.simultaneous_lower,
        "upper": band.simultaneous_upper,
        "random": band.share * band.uplift[-1],
        "critical": band.critical,
    }


def _headline(band: UpliftBand, at: int) -> dict[str, Any]:
    """The same numbers as the curve and the plan have at this share."""
    ratio = ratio_interval(band, at)
    found = {
        "share": band.share[at],
        "gain": band.uplift[at],
        "lower": band.simultaneous_lower[at],
        "upper": band.simultaneous_upper[at],
    }
    keys = ("ratio", "ratio_lower", "ratio_upper")
    return found | dict(zip(keys, ratio or (None, None, None), strict=True))


def _deciles(rows: Rows, calibration: Calibration | None, level: float) -> dict[str, Any]:
    """Effect in each tenth and, with a calibration, the mean predicted uplift of its people."""
    score, treated = rows.score, rows.treated
    if calibration is None:
        table = uplift_by_decile(rows.y, score, treatment=treated, level=level)
        return table.reset_index().to_dict("list") | {"predicted": None, "caveat": None}
    table = calibration_table(calibration, rows.y, score, treatment=treated, level=level)
    return table.reset_index().to_dict("list") | {"caveat": calibration.caveat}


def _drivers(
    features: pd.DataFrame | None,
    rows: Rows,
    linear: tuple[ArrayLike, pd.DataFrame] | None,
    share: float,
) -> dict[str, Any]:
    found: dict[str, Any] = {"share": share, "features": [], "n_features": 0, "skipped": []}
    if features is not None:
        if len(features) != len(rows.y):
            raise ValueError(
                f"features should have as many rows as y, {len(rows.y)}; got {len(features)}. "
                f"Pass the features of the held-out rows."
            )
        found = describe_drivers(features, rows.score, share=share)
    return found | {"linear": None if linear is None else linear_weights(*linear)}


def _randomisation(report: RandomisationReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    found = report.to_dict()
    found["n_differences"] = len(found["differences"])
    for name in ("differences", "missing"):
        found[name] = found[name][:MOST_DIFFERENCES]
    return found


def _certificate(certificate: Certificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    if not is_dataclass(certificate):
        raise TypeError(
            f"certificate should come from auucmax.certify, got {type(certificate).__name__}. "
            f"Pass what it returned."
        )
    return asdict(certificate) | {"text": str(certificate)}


def _with_sentences(summary: dict[str, Any]) -> dict[str, Any]:
    summary["headline"]["text"] = sentences.headline_sentence(summary)
    summary["trial"] = {
        "balance": sentences.trial_sentence(summary),
        "effect": sentences.effect_sentence(summary),
    }
    summary["auuc"]["text"] = sentences.ranking_sentence(summary)
    summary["caveats"] = caveats_of(summary)
    return summary
