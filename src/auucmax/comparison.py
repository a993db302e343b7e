"""Compare many models on many splits of one trial.

The models of a comparison are checked and named before anything is fitted. Each is then fitted on
each split, scored and measured, in this process or in others. Finished fits are kept in a file, so
that a run that was stopped can go on. The result has tables, paired differences and a plot.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from auucmax._errors import InputError
from auucmax._optional import import_optional
from auucmax._progress import quiet, track
from auucmax._validation import check_choice, check_level, check_whole
from auucmax.data.balance import holm
from auucmax.data.pair import Pair, row_keys
from auucmax.data.trial import Trial
from auucmax.encoding import TableEncoder
from auucmax.estimators.base import count_parameters, fit_rows, free_random_states
from auucmax.metrics.inference import interval_around, p_value_of
from auucmax.metrics.levels import Levels
from auucmax.model.registry import COMPARABLE, check_able
from auucmax.results import Kind, Shown, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "compare"]

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


#: What is measured of a model on a split, by type. All but "int64" may be missing.
RESULT = dict.fromkeys(
    ("auuc", "standard_error", "gain", "gain_standard_error", "effect", "fit_seconds"), "float64"
) | {"n_parameters": "Int64", "n_train": "int64", "n_test": "int64", "error": "object"}

_VERSION = {"auucmax_compare": 3}
_MARK = b'{"auucmax_compare": 3, '  # each line of a file begins so


def compare(
    models: Sequence[Any] | Mapping[str, Any] | None,
    trial: Trial,
    *,
    splits: int = 10,
    test_size: float = 0.3,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    resume: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Compare models by AUUC over random splits of a trial.

    All models see the same splits, which keep the share of each arm; of the test rows they see only
    X. (Look at :func:`auucmax.check_randomisation` first: where treatment can be predicted from X,
    a high AUUC may mean that a model has found who was treated.)

    Parameters
    ----------
    models : names as for :func:`auucmax.fit`, or estimators, which are named by class and changed
        parameters, or a dict of name -> estimator. A name means that model after an encoder of raw
        columns. Estimators have ``fit(X, y, *, treatment)`` and ``predict(X)``, and are cloned;
        pipelines and grid searches of such estimators work too. None: "auucmax", "tm" and "cvt" for
        0/1 outcomes, else "auto", "tm" and "response".
    trial : a trial of two arms. Weights count in fitting and in AUUC; where only some rows were
        randomised, AUUC is that of the randomised test rows. Its groups are kept whole in all
        splits.
    splits : number of random splits.
    test_size : share of the rows in each test part.
    random_state : seed of the splits, and of each model whose ``random_state`` is None. The results
        do not depend on ``n_jobs``, on the other models, or on their order; more splits keep the
        first ones.
    n_jobs : processes; -1: all cores. Each model gets one thread, so that fit times compare.
    resume : a file to which each finished fit is added as a line of JSON. A run that was stopped,
        even killed, continues with the fits that the file lacks (or has as failed), as do runs with
        more models or splits. A fit is identified by the rows, the split and the name of the model:
        start a new file when a model has changed under the same name.

    Returns
    -------
    Comparison
        Print it, or see its ``frame``, ``summary()``, ``differences()`` and ``plot()``. A model
        that fails on a split has its error in the frame, comes last, and a warning says so.

    Examples
    --------
    >>> from auucmax import ClassTransformation, TwoModels, make_trial
    >>> trial = make_trial(2_000, random_state=0)
    >>> found = compare([TwoModels(), ClassTransformation(balance="none")], trial, splits=3)
    >>> found.frame.shape
    (6, 12)
    >>> sorted(found.summary().index)
    ["ClassTransformation(balance='none')", 'TwoModels']
    """
    if not isinstance(trial, Trial) or trial.is_multi_arm:
        raise InputError(
            "trial", "a Trial of two arms", str(getattr(trial, "arm_names", type(trial))),
            "Make one, Trial(X, y, treatment), or choose an arm: trial.select_arm(label).",
        )  # fmt: skip
    if models is None:
        is_binary = trial.roles.outcome.kind == Kind.BINARY
        models = ["auucmax", "tm", "cvt"] if is_binary else ["auto", "tm", "response"]
    named = name_models(models, trial, random_state if isinstance(random_state, int) else 0)
    n_splits = check_whole(splits, "splits", 1)
    # From one number on, so that ten splits are the first ten of a hundred.
    start = int(np.random.default_rng(random_state).integers(2**63))
    states = np.random.SeedSequence(start).generate_state(n_splits, np.uint64)
    seeds = tuple(states.tolist())
    trial.split(test_size, random_state=seeds[0])  # an error here would be one in every split
    test_size = float(test_size)
    # Without ids and true effects: a worker is sent only what is used.
    weight = trial.sample_weight
    if trial.propensity is not None:  # undone by weights
        (pair,) = Pair.each(trial, row_keys(trial, "0" * 16))
        weight = pair.weight if weight is None else weight * pair.weight
    rows = Trial(
        trial.X, trial.benefit, trial.arm.astype(np.int8), weight,
        randomised=trial.randomised, groups=trial.groups,
    )  # fmt: skip
    results = {}
    if resume is not None:
        # Column by column: equal frames may be laid out in memory in several ways. The order of the
        # rows counts: in another order, a seed is another split.
        columns = [(str(name), rows.X[name].to_numpy()) for name in rows.X]
        others = rows.y, rows.treatment, rows.sample_weight, rows.randomised, rows.groups
        source = _VERSION | {"trial": joblib.hash((columns, others)), "test_size": test_size}
        for line in _read(Path(resume)):
            if line["error"] is None and {name: line[name] for name in source} == source:
                results[line["model"], line["seed"]] = {name: line[name] for name in RESULT}
        Path(resume).parent.mkdir(parents=True, exist_ok=True)
    missing = [
        (name, model, seed, rows, test_size)
        for seed in seeds
        for name, model in named.items()
        if (name, seed) not in results
    ]
    warned: dict[tuple[str, type[Warning]], list[str]] = {}
    label = f"{len(named)} models, {n_splits} splits"
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        # One task per message: a finished fit is not lost with those that are not.
        pool = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    finished = pool(delayed(_fit)(*task) for task in missing)
    for name, seed, result, caught in track(finished, len(missing), label):
        results[name, seed] = result
        for category, text in caught.items():
            warned.setdefault((name, category), []).append(text)
        if resume is not None:
            text = json.dumps(source | {"model": name, "seed": seed} | result)
            with Path(resume).open("ab", buffering=0) as sink:
                sink.write(text.encode() + b"\n")  # in one: whole, or torn at the end of the file
    lines = [
        {"model": name, "split": split} | results[name, seed]
        for name in named
        for split, seed in enumerate(seeds)
    ]
    frame = pd.DataFrame(lines, columns=["model", "split", *RESULT]).astype(RESULT)
    for name, errors in frame.dropna(subset=["error"]).groupby("model", sort=False)["error"]:
        warnings.warn(
            f"{name} failed on {len(errors)} of {n_splits} splits, the first time with: "
            f"{errors.iloc[0]} The frame has no numbers for these; see its column error.",
            stacklevel=2,
        )
    for (name, category), texts in warned.items():
        text = f"{name}, {len(texts)} of {n_splits} splits: {texts[0]}"
        warnings.warn(text, category, stacklevel=2)
    return Comparison(frame, test_size, seeds, trial.name, trial.n_rows)


def name_models(models: Any, trial: Trial, seed: int = 0) -> dict[str, Any]:
    """Map unique names to estimators.

    >>> from auucmax import AUUCMax, TwoModels, make_trial
    >>> models = [AUUCMax(), AUUCMax("s_log", selection=None), TwoModels()]
    >>> list(name_models(models, make_trial(200, random_state=0)))
    ['AUUCMax', "AUUCMax(selection=None, surrogate='s_log')", 'TwoModels']
    """
    if isinstance(models, Mapping):
        pairs = [(str(name), model) for name, model in models.items()]
    elif isinstance(models, list | tuple):
        pairs = [(own if isinstance(own, str) else _short(own), own) for own in models]
    else:
        pairs = []
    named = dict(pairs)
    if not 0 < len(pairs) == len(named):
        raise InputError(
            "models", "a list of names or estimators, all different, or a dict of name -> "
            "estimator, at least one", _short(models), "Put a single model into a list.",
        )  # fmt: skip
    return {name: _estimator(model, trial, seed) for name, model in named.items()}


def _short(model: Any) -> str:
    """A short name: the class and its changed parameters, without addresses in memory."""
    return re.sub(r" at 0x\w+|\(\)", "", " ".join(repr(model).split()))


def _estimator(model: Any, trial: Trial, seed: int) -> Any:
    """Validate an estimator, or make one from a model name, with an encoder."""
    if isinstance(model, str):
        roles = trial.roles
        check_able(model, roles.outcome, "models", list(COMPARABLE))
        encoder = TableEncoder(
            new_levels="other", categorical=roles.categorical, numeric=roles.numeric
        )
        return make_pipeline(encoder, COMPARABLE[model](seed))
    needed = ("fit", "predict", "get_params", "set_params")
    if isclass(model) or not all(hasattr(model, name) for name in needed):
        raise InputError(
            "models", f"estimators with {', '.join(needed)}", _short(model),
            "Use a model of auucmax.estimators, or derive yours from scikit-learn's BaseEstimator.",
        )  # fmt: skip
    return model


def _fit(
    name: str, model: Any, seed: int, trial: Trial, test_size: float
) -> tuple[str, int, dict[str, Any], dict[type[Warning], str]]:
    """Fit, score and evaluate one model on one split; errors are recorded, not raised.

    Returns the model and its split, what was measured, and the first warning of each category.
    """
    train, test = trial.split(test_size, random_state=seed)
    result: dict[str, Any] = dict.fromkeys(RESULT)
    result["n_train"] = train.n_rows
    if test.randomised is not None:
        test = test.take(test.randomised)
    result["n_test"] = test.n_rows
    # Not the stream of the split, or the draws of a model would follow those of its rows.
    own = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0] >> 1)
    weights = {} if train.sample_weight is None else {"sample_weight": train.sample_weight}
    # One thread here as in the workers, or sums might be rounded differently.
    # Bars of models would write over that of the comparison.
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(limits=1), quiet():
        try:
            model = clone(model)
            model.set_params(**dict.fromkeys(free_random_states(model), own))
            start = time.perf_counter()
            fit_rows(model, train.X, train.y, treatment=train.treatment, **weights)
            seconds = time.perf_counter() - start
            score = model.predict(test.X)  # a model never gets anything else of the test rows
            levels = Levels.of(
                test.y, score, treatment=test.treatment, sample_weight=test.sample_weight,
                groups=test.groups,
            )  # fmt: skip
            found = levels.inference()
            result |= {
                "auuc": found.estimate,
                "standard_error": found.standard_error,
                "gain": found.gain,
                "gain_standard_error": found.gain_standard_error,
                "effect": float(levels.effect()),
                "fit_seconds": seconds,
                "n_parameters": count_parameters(model),
            }
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    return name, seed, result, {w.category: str(w.message) for w in reversed(caught)}


def _read(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a file, dropping an incomplete last line."""
    data = path.read_bytes() if path.exists() else b""
    *lines, torn = data.split(b"\n")
    found: list[dict[str, Any]] = []
    try:
        # A file of the user's own must neither grow nor lose its last line.
        if not _MARK.startswith(torn[: len(_MARK)]):
            raise ValueError("it ends with something else")
        for line in map(json.loads, lines):
            names = (*_VERSION, "trial", "test_size", "model", "seed", *RESULT)
            found.append({name: line[name] for name in names})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            "resume", "a new file, or one that compare has written",
            f"{path}, whose line {len(found) + 1} is something else",
            "Choose another name, or delete that line.",
        ) from error  # fmt: skip
    if torn:  # its writer was killed
        os.truncate(path, len(data) - len(torn))
    return found
