"""All models on all splits: what is missing is done, and kept.

The models of a comparison are checked and named before anything is fitted.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import isclass, signature
from typing import Any

import numpy as np
import pandas as pd

from auucmax._progress import track
from auucmax._validation import check_whole, listed
from auucmax.compare.comparison import Comparison
from auucmax.compare.fit import MEASURED, RESULT, Done, Task, do_all
from auucmax.compare.store import PathLike, open_store
from auucmax.data.trial import Trial

Models = Sequence[Any] | Mapping[str, Any]


def name_models(models: Models) -> dict[str, Any]:
    """Name -> estimator, all names different.

    >>> from auucmax import AUUCMax, TwoModels
    >>> list(name_models([AUUCMax(), AUUCMax("s_log", selection=None), TwoModels()]))
    ['AUUCMax', "AUUCMax(selection=None, surrogate='s_log')", 'TwoModels']
    """
    if hasattr(models, "fit") or not isinstance(models, (list, tuple, Mapping)):
        raise ValueError(
            f"models should be a list of estimators or a dict of name -> estimator, got "
            f"{type(models).__name__}. Put a single model into a list."
        )
    if len(models) == 0:
        raise ValueError("models should hold at least one estimator, got none. Pass a list.")
    listing = list(models.values()) if isinstance(models, Mapping) else list(models)
    for model in listing:
        _check_estimator(model)
    names = [str(n) for n in models] if isinstance(models, Mapping) else [*map(_short, listing)]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"models should have different names, got {listed(repeated)} more than once. "
            f"Drop the copies, or pass a dict of name -> estimator."
        )
    return dict(zip(names, listing, strict=True))


def _check_estimator(model: Any) -> None:
    if isclass(model):
        raise ValueError(
            f"models should hold estimators, got the class {model.__name__}. "
            f"Make one: {model.__name__}()."
        )
    needed = ("fit", "predict", "get_params", "set_params")
    if lacks := [name for name in needed if not hasattr(model, name)]:
        raise ValueError(
            f"models should hold estimators with {', '.join(needed)}, got a "
            f"{type(model).__name__} without {', '.join(lacks)}. Use a model of "
            f"auucmax.estimators, or derive yours from scikit-learn's BaseEstimator."
        )


def _short(model: Any) -> str:
    """Class, and the parameters that differ from its defaults; of a pipeline, its steps."""
    if hasattr(model, "steps"):
        return f"{type(model).__name__}({', '.join(_short(step) for _, step in model.steps)})"
    defaults = {p.name: p.default for p in signature(type(model).__init__).parameters.values()}
    changed = [
        f"{name}={_text(value)}"
        for name, value in model.get_params(deep=False).items()
        if name not in defaults or repr(value) != repr(defaults[name])
    ]
    return type(model).__name__ + (f"({', '.join(changed)})" if changed else "")


def _text(value: Any) -> str:
    if hasattr(value, "get_params") and not isclass(value):
        return _short(value)
    if hasattr(value, "__qualname__"):  # a function or a class
        return str(value.__qualname__)
    text = " ".join(repr(value).split())
    return type(value).__name__ if " at 0x" in text else text


def compare(
    models: Models,
    trial: Trial,
    *,
    splits: int = 10,
    test_size: float = 0.3,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    resume: PathLike | None = None,
) -> Comparison:
    """Fit each model to random parts of a trial, and measure AUUC on the rows that are left.

    All models see the same splits, which keep the share of each arm, and of the test rows only X.
    (Look at :func:`auucmax.check_randomisation` first: where treatment can be predicted from X, a
    high AUUC may mean that a model has learnt who was treated.)

    Parameters
    ----------
    models : estimators, named by class and changed parameters, or a dict of name -> estimator.
        Each has ``fit(X, y, *, treatment)`` and ``predict(X)``, and is cloned; pipelines and grid
        searches of such estimators will do.
    trial : of two arms. Weights count in fitting and in AUUC; where only some rows were randomised,
        AUUC is that of the randomised test rows. Its groups are kept whole in all splits.
    splits : number of random splits.
    test_size : share of the rows in each test part.
    random_state : of the splits, and of each model whose ``random_state`` is None. The results do
        not depend on ``n_jobs``, on the other models, or on their order; more splits add to fewer.
    n_jobs : processes; -1: all cores. Each model gets one thread, so that fit times compare.
    resume : a file to which each finished fit is added as a line of JSON. A run that was stopped,
        even killed, does only what the file lacks (or has as failed); so do runs with more models
        or splits. What was made from other rows, splits or parameters (or another function of the
        same name, as a parameter) stays there, unused. Start a new file when the code of a model,
        or what a function calls, has changed: that cannot be seen.

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
    (6, 11)
    >>> sorted(found.summary().index)
    ["ClassTransformation(balance='none')", 'TwoModels']
    """
    named = name_models(models)
    if not isinstance(trial, Trial):
        raise ValueError(
            f"trial should be a Trial, got {type(trial).__name__}. Make one: "
            f"Trial(X, y, treatment)."
        )
    if trial.is_multi_arm:
        raise ValueError(
            f"trial should have two arms, got {listed(trial.arms)}. Compare on one arm and the "
            f"control, for example trial.select_arm({trial.arms[1]!r})."
        )
    n_jobs = -1 if n_jobs == -1 else check_whole(n_jobs, "n_jobs", 1)
    seeds = _seeds(random_state, check_whole(splits, "splits", 1), resume)
    trial.split(test_size, random_state=seeds[0])  # what is wrong with one is wrong with all
    test_size = float(test_size)
    # Without ids, names and true effects: a worker is sent, and a file keyed by, what is used.
    weight, randomised = trial.sample_weight, trial.randomised
    rows = Trial(
        trial.X, trial.y, trial.treatment, weight, randomised=randomised, groups=trial.groups
    )
    warned: list[Done] = []
    with open_store(resume, named, rows, test_size) as (results, keep):
        missing = [
            Task(name, model, seed, rows, test_size)
            for seed in seeds
            for name, model in named.items()
            if (name, seed) not in results
        ]
        label = f"{len(named)} models, {len(seeds)} splits"
        for done in track(do_all(missing, n_jobs), len(missing), label):
            keep(done)
            results[done.name, done.seed] = done.result
            warned += [done] if done.warned else []
    lines = [
        {"model": name, "split": split} | results[name, seed]
        for name in named
        for split, seed in enumerate(seeds)
    ]
    types = dict.fromkeys(MEASURED, "float64") | {"n_parameters": "Int64", "error": "object"}
    frame = pd.DataFrame(lines, columns=["model", "split", *RESULT]).astype(types)
    _warn(frame, warned, len(seeds))
    return Comparison(frame, test_size, seeds, trial.name, trial.n_rows)


def _seeds(
    random_state: int | np.random.Generator | None, splits: int, resume: PathLike | None
) -> tuple[int, ...]:
    """A seed for each split; the first ones do not depend on how many follow."""
    if random_state is None and resume is not None:
        raise ValueError(
            "random_state should be a whole number with resume, got None: the next run would make "
            "other splits. Pass random_state=0."
        )
    # From one number on, so that ten splits are the first ten of a hundred.
    start = int(np.random.default_rng(random_state).integers(2**63))
    return tuple(np.random.SeedSequence(start).generate_state(splits, np.uint64).tolist())


def _warn(frame: pd.DataFrame, warned: list[Done], n_splits: int) -> None:
    """Warn of failures once for each model, and of its warnings once for each category."""
    for name, errors in frame.dropna(subset=["error"]).groupby("model", sort=False)["error"]:
        warnings.warn(
            f"{name} should fit every split, got an error on {len(errors)} of {n_splits}, the "
            f"first: {errors.iloc[0]} Their rows of the frame have no numbers; its column error "
            f"says why.",
            UserWarning,
            stacklevel=3,
        )
    first: dict[tuple[str, type[Warning]], str] = {}
    counts: Counter[tuple[str, type[Warning]]] = Counter()
    for done in warned:
        counts.update({(done.name, category) for category, _ in done.warned})
        for category, text in done.warned:
            first.setdefault((done.name, category), text)
    for (name, category), text in first.items():
        count = counts[name, category]
        warnings.warn(f"{name}, {count} of {n_splits} splits: {text}", category, stacklevel=3)
