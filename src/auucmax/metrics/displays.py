"""Scorers and displays in the style of scikit-learn.

**Scorers** are for ``cross_validate`` and ``GridSearchCV``. They request ``treatment`` themselves:
call ``sklearn.set_config(enable_metadata_routing=True)`` and pass
``params={"treatment": treatment}`` to ``cross_validate``. Without that line scikit-learn passes the
treatment to ``fit`` alone; the scorers then raise ``RoutingDisabled``, which says which line to
add.

**Displays** compute their numbers and plot them. Imported late, because scikit-learn's metrics load
slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from auucmax._optional import import_optional
from auucmax._validation import Floats, check_shares, check_treatment_given
from auucmax.metrics.curves import PolicyRiskInference, UpliftBand
from auucmax.metrics.functions import auuc_score, qini_score
from auucmax.metrics.inference import AUUCInference
from auucmax.metrics.levels import Levels, RowOptions
from auucmax.metrics.ranking import RankingKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _GREY = "#1f5a99", "#777777"
_MOST_POINTS = 1000
_SHARE = "share of people treated, highest score first"


@dataclass(repr=False)
class Display:
    """Base class of displays; ``plot`` sets ``ax_``, the axes, and ``figure_``.

    A display computes its numbers from levels in ``_of`` and draws them in ``_draw``.
    """

    _of: ClassVar[Any]
    _draw: ClassVar[Any]
    name: str | None = field(default=None, kw_only=True)
    ax_: Axes | None = field(default=None, init=False)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        score: ArrayLike,
        *,
        treatment: ArrayLike,
        name: str | None = None,
        ax: Axes | None = None,
        color: str | None = None,
        **options: Any,
    ) -> Self:
        """Compute and plot; ``options`` are those of the metric (see the class)."""
        own = {key: options.pop(key) for key in [*options] if key not in RowOptions.__annotations__}
        display = cls._of(Levels.of(y, score, treatment=treatment, **options), **own)
        display.name = name
        return display.plot(ax=ax, color=color)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, treatment: ArrayLike, **options: Any
    ) -> Self:
        """Score ``X`` with a fitted estimator, then call :meth:`from_predictions`."""
        options.setdefault("name", type(estimator).__name__)
        return cls.from_predictions(y, estimator.predict(X), treatment=treatment, **options)

    def plot(self, ax: Axes | None = None, color: str | None = None) -> Self:
        """Draw on ``ax`` (a new figure if None); several displays may share one."""
        if ax is None:
            pyplot = import_optional("matplotlib.pyplot", extra="plot")
            _, ax = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
            ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax, color or (_BLUE if not ax.lines else None))
        ax.legend(loc="best", frameon=False)
        return self

    def _label(self, text: str = "") -> str:
        """A legend label, folded if long."""
        return "\n".join(wrap(": ".join(part for part in (self.name, text) if part), 60))


@dataclass(repr=False)
class UpliftCurveDisplay(Display):
    """Plot of the uplift curve, its simultaneous band, and random targeting.

    Build it with :meth:`from_predictions` or :meth:`from_estimator`, whose options are those of
    :func:`auuc_inference`, and ``band``: whether the band is drawn.

    Examples
    --------
    >>> from auucmax import UpliftCurveDisplay, load_hillstrom
    >>> trial = load_hillstrom()
    >>> display = UpliftCurveDisplay.from_predictions(
    ...     trial.y, trial.X["womens"], treatment=trial.treatment, name="bought women's"
    ... )
    >>> display.ax_.get_xlabel()
    'share of people treated, highest score first'
    """

    share: Floats
    uplift: Floats
    inference: AUUCInference
    band: UpliftBand | None = None

    @classmethod
    def _of(
        cls,
        levels: Levels,
        *,
        band: bool = True,
        level: float = 0.95,
        ranking: RankingKind = "joint",
    ) -> Self:
        # A band encloses the curve of centred outcomes.
        share, uplift = levels.curve(ranking, centred=band)
        # A picture has no use for more points than pixels; the last one is the average effect.
        step = max(1, len(share) // _MOST_POINTS)
        kept = np.unique(np.append(np.arange(0, len(share), step), len(share) - 1))
        around = levels.band(level=level, ranking=ranking) if band else None
        return cls(share[kept], uplift[kept], levels.inference(level, ranking), around)

    def _draw(self, ax: Axes, color: str | None) -> None:
        low, high = self.inference.interval
        label = self._label(f"AUUC {self.inference.estimate:.4f} ({low:.4f} to {high:.4f})")
        (line,) = ax.plot(self.share, self.uplift, color=color, lw=2, label=label)
        if (band := self.band) is not None:
            label = f"{band.level:.0%} band, all shares from {band.share[0]:.0%} up"
            _shade(line, band.share, (band.simultaneous_lower, band.simultaneous_upper), label)
        if not any(old.get_label() == "random" for old in ax.lines):
            ax.plot([0, 1], [0, self.uplift[-1]], color=_GREY, ls="--", lw=1.2, label="random")
        ax.set(xlabel=_SHARE, ylabel="gain in mean outcome, per person", xlim=(0, 1))


@dataclass(repr=False)
class PolicyRiskDisplay(Display):
    """Plot of policy risk by share of people treated, with its minimum.

    The band holds at each share by itself, not at all of them at once, and not at the lowest point.
    It has gaps where there is no interval (``inference.declined`` says why). Options are those of
    :func:`policy_risk_inference`, and ``band``: whether intervals are drawn.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.metrics import PolicyRiskDisplay
    >>> trial = load_hillstrom()
    >>> display = PolicyRiskDisplay.from_predictions(
    ...     trial.y, trial.X["womens"], treatment=trial.treatment
    ... )
    >>> display.best_share
    1.0
    """

    share: Floats
    risk: Floats
    inference: PolicyRiskInference | None = None

    @property
    def best_share(self) -> float:
        """Share with the lowest risk on these rows (an optimistic choice)."""
        return float(self.share[np.argmin(self.risk)])

    @classmethod
    def _of(
        cls,
        levels: Levels,
        *,
        share: ArrayLike | None = None,
        band: bool = True,
        level: float = 0.95,
    ) -> Self:
        grid = check_shares(np.linspace(0, 1, 101) if share is None else share)
        around = levels.policy_risk_inference(grid, level)
        return cls(grid, np.asarray(around.estimate), around if band else None)

    def _draw(self, ax: Axes, color: str | None) -> None:
        label = self._label(f"lowest {self.risk.min():.4f} at {self.best_share:.2f}")
        (line,) = ax.plot(self.share, self.risk, color=color, lw=2, label=label)
        if self.inference is not None and np.isfinite(self.inference.interval[0]).any():
            label = f"{self.inference.level:.0%} interval, each share by itself"
            _shade(line, self.share, self.inference.interval, label)
        ax.plot(self.best_share, self.risk.min(), "o", color=line.get_color(), ms=7)
        ax.set(xlabel=_SHARE, ylabel="policy risk")


@dataclass(repr=False)
class DecileDisplay(Display):
    """Plot of the average effect in each tenth, highest scores first, with intervals.

    Options are those of :func:`uplift_by_decile`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.metrics import DecileDisplay
    >>> trial = load_hillstrom()
    >>> display = DecileDisplay.from_predictions(
    ...     trial.y, trial.X["history"], treatment=trial.treatment
    ... )
    >>> len(display.table)
    10
    """

    table: pd.DataFrame
    average: float
    level: float = 0.95

    @classmethod
    def _of(cls, levels: Levels, *, bins: int = 10, level: float = 0.95) -> Self:
        return cls(levels.deciles(bins, level), levels.effect(), level)

    def _draw(self, ax: Axes, color: str | None) -> None:
        table = self.table.dropna(subset=["uplift"])
        # Without an interval there is no bar.
        half = table[["lower", "upper"]].sub(table["uplift"], axis=0).abs().fillna(0).T
        label = self._label() or "effect"
        ax.bar(table.index, table["uplift"], color=color, alpha=0.75, label=label)
        ax.errorbar(table.index, table["uplift"], yerr=half, fmt="none", ecolor="black", capsize=3)
        ax.axhline(self.average, color=_GREY, ls="--", lw=1.2, label="average effect")
        ax.axhline(0, color="black", lw=0.8)
        parts = "tenth" if len(self.table) == 10 else f"one of {len(self.table)} parts"
        ax.set(
            xlabel=f"{parts} of the people, highest score first",
            ylabel=f"effect, with {self.level:.0%} interval",
            xticks=self.table.index,
        )


def _shade(line: Any, share: Floats, ends: tuple[Any, Any], label: str) -> None:
    """Shade a band in the colour of its line."""
    line.axes.fill_between(share, *ends, color=line.get_color(), alpha=0.15, lw=0, label=label)


def _score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    metric: Callable[..., float],
    treatment: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    given = check_treatment_given(treatment, scoring=True)
    return metric(y, score, treatment=given, sample_weight=sample_weight)


def _scorer(metric: Callable[..., float]) -> Any:
    # Requests can only be declared while routing is on; declared, they hold for everybody.
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(_score, metric=metric)
        return scorer.set_score_request(treatment=True, sample_weight=True)


auuc_scorer = _scorer(auuc_score)
qini_scorer = _scorer(qini_score)
