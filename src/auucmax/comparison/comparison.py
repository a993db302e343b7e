"""The result of a comparison: tables, paired differences and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from auucmax._optional import import_optional
from auucmax._validation import check_choice, check_level
from auucmax.data.balance import holm
from auucmax.metrics.inference import interval_around, p_value_of
from auucmax.results import Shown, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BLUE, _GREY = "#1f5a99", "#777777"
_BESIDE: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "color": _GREY}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """The result of :func:`compare`; printing it lists the models, best first.

    Attributes
    ----------
    frame : a row for each model and split: model, split, auuc (of the test rows), standard_error,
        gain (over random, of centred outcomes), gain_standard_error, effect (average, of the
        test rows), fit_seconds, n_parameters (missing if the model does not say), n_train, n_test,
        error (missing if there was none).
    test_size, trial_name, n_rows : of the trial that was split.
    seeds : ``trial.split(test_size, random_state=seeds[j])`` is split j.
    """

    frame: pd.DataFrame
    test_size: float
    seeds: tuple[int, ...]
    trial_name: str
    n_rows: int

    def summary(self) -> pd.DataFrame:
        """One row per model, by mean AUUC; models that failed come last.

        mean_auuc and sd_auuc over splits; mean_gain; mean_rank (1 is best; a failed fit is last);
        share_best of the splits; n_parameters and fit_seconds, medians; n_failed.

        Means, spread and medians of a model are those of the splits on which it did not fail.
        Splits differ, so the mean of a model that failed on some cannot be compared with the
        others: such models come last, the fewest failures first. Their :meth:`differences` are of
        the same splits.
        """
        auuc = self._by_split("auuc")
        best = auuc.eq(auuc.max(axis=1), axis=0)
        table = pd.DataFrame(
            {
                "mean_auuc": auuc.mean(),
                "sd_auuc": auuc.std(),
                "mean_gain": self._by_split("gain").mean(),
                "mean_rank": auuc.rank(axis=1, ascending=False, na_option="bottom").mean(),
                "share_best": best.mean(),
                "n_parameters": self._by_split("n_parameters").median(),
                "fit_seconds": self._by_split("fit_seconds").median(),
                "n_failed": auuc.isna().sum(),
            }
        )
        # A mean over fewer splits may be a luckier one: failures count before it.
        place = np.lexsort((-table["mean_auuc"], table["n_failed"]))
        return table.iloc[place]

    def differences(self, reference: str | None = None, level: float = 0.95) -> pd.DataFrame:
        """AUUC of each model minus that of ``reference``, paired by split, with p values.

        Both are of outcomes less their mean (the column ``gain``), which has less noise.

        Splits of one trial share rows, so their differences are not independent, and the usual
        paired t-test calls far too much significant. This is the corrected resampled t-test of
        Nadeau and Bengio (2003): over J splits with differences d_j,

            t = mean(d) / sqrt((1/J + n_test/n_train) var(d)),    J - 1 degrees of freedom.

        The correction is an approximation. One split has no interval.

        Parameters
        ----------
        reference : name of a model; None: the first of :meth:`summary`, that of the highest mean
            AUUC among those that never failed. It was chosen by looking at these numbers, which
            p-values ignore: name it beforehand if you can.
        level : coverage of each interval.

        Returns
        -------
        DataFrame
            By model: difference, standard_error, lower, upper, p_value (two-sided), p_holm (the
            same, adjusted by Holm's method for the number of models), n_splits (on which neither
            failed).
        """
        check_level(level)
        gain, order = self._by_split("gain"), list(self.summary().index)
        reference = order[0] if reference is None else reference
        check_choice(reference, "reference", order)
        # Test rows per training row: splits share rows.
        ratio = float(self.frame["n_test"].sum() / self.frame["n_train"].sum())
        table = {}
        for name in order:
            values = (gain[name] - gain[reference]).dropna()
            n, mean = len(values), float(values.mean())
            error = float(np.sqrt((1 / n + ratio) * values.var())) if n else np.nan
            if name != reference:
                ends = interval_around(mean, error, level, n - 1)
                table[name] = (mean, error, *ends, p_value_of(mean, error, n - 1), n)
        names = ["difference", "standard_error", "lower", "upper", "p_value", "n_splits"]
        result = pd.DataFrame.from_dict(table, orient="index", columns=names)
        result.insert(5, "p_holm", holm(result["p_value"].to_numpy(dtype=np.float64)))
        result.attrs["reference"] = reference
        return result.rename_axis("model").astype({"n_splits": int})

    def plot(self, ax: Axes | None = None, level: float = 0.95) -> Axes:
        """Plot the mean test AUUC of each model and of a random ranking.

        The line is the interval of the paired difference from the best, and reaches the upright
        line unless that difference is significant. (Intervals of the AUUC itself overlap even where
        models differ clearly: a split that is lucky for one ranking is lucky for all.) The mark of
        a model that failed is hollow, and its mean that of the other splits.
        """
        table, gaps = self.summary(), self.differences(level=level)
        best = table["mean_auuc"].iloc[0]
        names = [wrap(name, 34) for name in table.index]  # also a long word: it leaves no room else
        if ax is None:
            pyplot = import_optional("matplotlib.pyplot", extra="plot")
            height = max(0.45, 0.2 * max(map(len, names)))
            _, ax = pyplot.subplots(figsize=(8, 1.3 + height * len(table)), layout="constrained")
            ax.spines[["top", "right"]].set_visible(False)
        for height, (name, mean) in enumerate(table["mean_auuc"].items()):
            inside = "white" if table.loc[name, "n_failed"] else _BLUE
            ax.plot(mean, height, "o", color=_BLUE, markerfacecolor=inside, ms=8)
            if height > 0:
                gap = gaps.loc[name]
                ends = best + gap["lower"], best + gap["upper"]
                ax.plot(ends, [height, height], color=_BLUE, lw=4, alpha=0.5, solid_capstyle="butt")
                text = f"{gap['difference']:+.4f}, p = {gap['p_value']:.2g}"
                ax.annotate(text.replace("+nan, p = nan", "failed"), (1.02, height), **_BESIDE)
        if len(table) > 1:
            ax.axvline(best, color=_BLUE, lw=0.8, alpha=0.5, zorder=0)
            ax.annotate("best", (1.02, 0), **_BESIDE)
        ax.axvline(self.random, color=_GREY, ls="--", lw=1.2, zorder=0)
        ax.text(self.random, -0.6, "random", color=_GREY, va="bottom", ha="center")
        ax.set_yticks(range(len(table)), ["\n".join(lines) for lines in names])
        what = f"test AUUC of {len(self.seeds)} splits, {level:.0%} interval of the difference"
        ax.set(ylim=(len(table) - 0.5, -0.5), xlabel=what)
        return ax

    @property
    def random(self) -> float:
        """AUUC of a random ranking: half the average effect, averaged over splits."""
        return float(self.frame["effect"].groupby(self.frame["split"]).mean().mean() / 2)

    def to_json(self) -> dict[str, Any]:
        """The summary, the differences from the best, and the splits, as plain JSON."""
        table = self.summary().join(self.differences())
        return {
            "trial": self.trial_name,
            "n_rows": self.n_rows,
            "test_size": self.test_size,
            "seeds": list(self.seeds),
            "random": self.random,
            "models": {str(name): plain(dict(own)) for name, own in table.iterrows()},
            "splits": plain(self.frame.astype({"n_parameters": "float64"}).to_dict("records")),
        }

    def _by_split(self, column: str) -> pd.DataFrame:
        """Values as an array (splits, models)."""
        table = self.frame.pivot(index="split", columns="model", values=column)
        return table[self.frame["model"].unique()].astype(float)
