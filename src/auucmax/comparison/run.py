"""Run all models on all splits of a trial.

The models of a comparison are checked and named before anything is fitted. Each is then fitted on
each split, scored and measured, in this process or in others. Finished fits are kept in a file, so
that a run that was stopped can go on.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import isclass, signature
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from auucmax._errors import InputError
from auucmax._progress import quiet, track
from auucmax._validation import check_whole, listed
from auucmax.comparison.comparison import Comparison
from auucmax.data.pair import Pair, row_keys
from auucmax.data.trial import Trial
from auucmax.encoding import TableEncoder
from auucmax.estimators.base import count_parameters, fit_rows, free_random_states
from auucmax.metrics.levels import Levels
from auucmax.model.registry import COMPARABLE, check_able
from auucmax.results import Kind

PathLike = str | os.PathLike[str]
Measures = dict[str, Any]  #: None where something was not measured, by the names in RESULT

MEASURED = (
    "auuc", "standard_error", "gain", "gain_standard_error", "effect", "fit_seconds",
    "n_parameters",
)  # fmt: skip
RESULT = (*MEASURED, "n_train", "n_test", "error")

_MARK = b'{"auucmax_compare": 3, '  # each line of a file begins so


class Task(NamedTuple):
    """One named model and one split (by seed) to run."""

    name: str
    model: Any
    seed: int
    trial: Trial
    test_size: float


class Done(NamedTuple):
    """The result of a task, with its warnings."""

    name: str
    seed: int
    result: Measures
    warned: list[tuple[type[Warning], str]]


def compare(
    models: Sequence[Any] | Mapping[str, Any] | None,
    trial: Trial,
    *,
    splits: int = 10,
    test_size: float = 0.3,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    resume: PathLike | None = None,
) -> Comparison:
    """Compare models by AUUC over random splits of a trial.

    All models see the same splits, which keep the share of each arm, and of the test rows only X.
    (Look at :func:`auucmax.check_randomisation` first: where treatment can be predicted from X, a
    high AUUC may mean that a model has found who was treated.)

    Parameters
    ----------
    models : names as for :func:`auucmax.fit`, or estimators, which are named by class and changed
        parameters, or a dict of name -> estimator. A name stands for that model after an encoder of
        raw columns. Estimators have ``fit(X, y, *, treatment)`` and ``predict(X)``, and are cloned;
        pipelines and grid searches of such estimators will do. None: "auucmax", "tm" and "cvt" for
        0/1 outcomes, else "auto", "tm" and "response".
    trial : of two arms. Weights count in fitting and in AUUC; where only some rows were randomised,
        AUUC is that of the randomised test rows. Its groups are kept whole in all splits.
    splits : number of random splits.
    test_size : share of the rows in each test part.
    random_state : of the splits, and of each model whose ``random_state`` is None. The results do
        not depend on ``n_jobs``, on the other models, or on their order; more splits add to fewer.
    n_jobs : processes; -1: all cores. Each model gets one thread, so that fit times compare.
    resume : a file to which each finished fit is added as a line of JSON. A run that was stopped,
        even killed, does only what the file lacks (or has as failed); so do runs with more models
        or splits. A fit is known by the rows, the split and the name of the model: start a new file
        when a model has changed under the same name.

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
    if not isinstance(trial, Trial):
        raise InputError(
            "trial", "a Trial", type(trial).__name__, "Make one: Trial(X, y, treatment)."
        )
    if trial.is_multi_arm:
        raise InputError(
            "trial", "of two arms", listed(trial.arms),
            f"Compare on one arm and the control: trial.select_arm({trial.arms[1]!r}).",
        )  # fmt: skip
    if models is None:
        is_binary = trial.roles.outcome.kind == Kind.BINARY
        models = ["auucmax", "tm", "cvt"] if is_binary else ["auto", "tm", "response"]
    named = name_models(models, trial, random_state if isinstance(random_state, int) else 0)
    n_jobs = -1 if n_jobs == -1 else check_whole(n_jobs, "n_jobs", 1)
    n_splits = check_whole(splits, "splits", 1)
    if random_state is None and resume is not None:
        raise InputError(
            "random_state", "a whole number with resume", "None: the next run would make other "
            "splits", "Pass random_state=0.",
        )  # fmt: skip
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
    warned: list[Done] = []
    with _open_store(resume, rows, test_size) as (results, keep):
        missing = [
            Task(name, model, seed, rows, test_size)
            for seed in seeds
            for name, model in named.items()
            if (name, seed) not in results
        ]
        label = f"{len(named)} models, {n_splits} splits"
        for done in track(_do_all(missing, n_jobs), len(missing), label):
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
    _warn(frame, warned, n_splits)
    return Comparison(frame, test_size, seeds, trial.name, trial.n_rows)


def name_models(models: Any, trial: Trial, seed: int = 0) -> dict[str, Any]:
    """Map unique names to estimators.

    >>> from auucmax import AUUCMax, TwoModels, make_trial
    >>> models = [AUUCMax(), AUUCMax("s_log", selection=None), TwoModels()]
    >>> list(name_models(models, make_trial(200, random_state=0)))
    ['AUUCMax', "AUUCMax(selection=None, surrogate='s_log')", 'TwoModels']
    """
    if not isinstance(models, list | tuple | Mapping) or len(models) == 0:
        raise InputError(
            "models", "a list of names or estimators, or a dict of name -> estimator, at least one",
            "none" if isinstance(models, list | tuple | Mapping) else type(models).__name__,
            "Put a single model into a list.",
        )  # fmt: skip
    if isinstance(models, Mapping):
        names = [str(name) for name in models]
        listing = list(models.values())
    else:
        names = [own if isinstance(own, str) else _short(own) for own in models]
        listing = list(models)
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(
            "models", "of different names", f"{listed(repeated)} more than once",
            "Drop the copies, or pass a dict of name -> estimator.",
        )  # fmt: skip
    return {name: _estimator(own, trial, seed) for name, own in zip(names, listing, strict=True)}


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
    if isclass(model) or (lacks := [name for name in needed if not hasattr(model, name)]):
        got = f"the class {model.__name__}" if isclass(model) else (
            f"a {type(model).__name__} without {', '.join(lacks)}"
        )  # fmt: skip
        raise InputError(
            "models", f"estimators with {', '.join(needed)}", got,
            "Use a model of auucmax.estimators, or derive yours from scikit-learn's BaseEstimator.",
        )  # fmt: skip
    return model


def _short(model: Any) -> str:
    """A short name: the class and its non-default parameters."""
    if isclass(model) or not hasattr(model, "get_params"):
        return repr(model)  # refused later
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


def _do_all(tasks: list[Task], n_jobs: int) -> Iterator[Done]:
    """Yield the result of each task as soon as it is available."""
    if n_jobs == 1 or not tasks:
        yield from map(_do, tasks)
        return
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        # One task per message: a finished fit is not lost with those that are not.
        pool = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    yield from pool(delayed(_do)(task) for task in tasks)


def _do(task: Task) -> Done:
    """Fit, score and evaluate one task; an error is a result, too."""
    train, test = task.trial.split(task.test_size, random_state=task.seed)
    result: Measures = dict.fromkeys(RESULT)
    result["n_train"] = train.n_rows
    result["n_test"] = test.n_rows if test.randomised is None else int(test.randomised.sum())
    # Not the stream of the split, or the draws of a model would follow those of its rows.
    own = int(np.random.SeedSequence([task.seed, 1]).generate_state(1)[0] >> 1)
    # One thread here as in the workers, or sums might be rounded differently.
    # Bars of models would write over that of the comparison.
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(limits=1), quiet():
        try:
            states = dict.fromkeys(free_random_states(task.model), own)
            result |= _measure(clone(task.model).set_params(**states), train, test)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    return Done(task.name, task.seed, result, [(w.category, str(w.message)) for w in caught])


def _measure(model: Any, train: Trial, test: Trial) -> Measures:
    rows = {"treatment": train.treatment}
    if train.sample_weight is not None:
        rows["sample_weight"] = train.sample_weight
    start = time.perf_counter()
    fit_rows(model, train.X, train.y, **rows)
    seconds = time.perf_counter() - start
    if test.randomised is not None:
        test = test.take(test.randomised)
    score = model.predict(test.X)  # a model never gets anything else of the test rows
    of_rows: dict[str, Any] = {"sample_weight": test.sample_weight, "groups": test.groups}
    levels = Levels.of(test.y, score, treatment=test.treatment, **of_rows)
    found = levels.inference()
    numbers = (found.estimate, found.standard_error, found.gain, found.gain_standard_error,
               levels.effect())  # fmt: skip
    known = [None if np.isnan(number) else float(number) for number in numbers]
    return dict(zip(MEASURED, [*known, seconds, count_parameters(model)], strict=True))


@contextmanager
def _open_store(
    path: PathLike | None, trial: Trial, test_size: float
) -> Iterator[tuple[dict[tuple[str, int], Measures], Callable[[Done], None]]]:
    """Load saved results by name and seed, with a function to save more."""
    if path is None:
        yield {}, lambda done: None
        return
    file = Path(path)
    # Column by column: equal frames may be laid out in memory in several ways. The order of the
    # rows counts: in another order, a seed is another split.
    columns = [(str(name), trial.X[name].to_numpy()) for name in trial.X]
    others = trial.y, trial.treatment, trial.sample_weight, trial.randomised, trial.groups
    of = {"trial": joblib.hash((columns, others)), "test_size": test_size}
    known: dict[tuple[str, int], Measures] = {}
    for line in _read(file):
        if line["error"] is None and {name: line[name] for name in of} == of:
            known[line["model"], line["seed"]] = {name: line[name] for name in RESULT}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as sink:

        def keep(done: Done) -> None:
            line = json.dumps(of | {"model": done.name, "seed": done.seed} | done.result)
            # One write: whole, or torn at the end of the file.
            sink.write(_MARK + line.removeprefix("{").encode() + b"\n")

        yield known, keep


def _read(path: Path) -> Iterator[Measures]:
    """Read the lines of a file, dropping an incomplete last line."""
    data = path.read_bytes() if path.exists() else b""
    *lines, torn = data.split(b"\n")
    # A file of the user's own must neither grow nor lose its last line.
    if not (all(line.startswith(_MARK) for line in lines) and _MARK.startswith(torn[: len(_MARK)])):
        raise InputError(
            "resume", "a new file, or one that compare has written", f"{path}, with other content",
            "Choose another name.",
        )  # fmt: skip
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            yield {name: line[name] for name in ("trial", "test_size", "model", "seed", *RESULT)}
        except (ValueError, KeyError) as error:
            raise InputError(
                "resume", "a file of whole lines", f"{path}, whose line {number} cannot be read",
                "Delete that line.",
            ) from error  # fmt: skip
    if torn:  # its writer was killed
        os.truncate(path, len(data) - len(torn))


def _warn(frame: pd.DataFrame, warned: list[Done], n_splits: int) -> None:
    """Warn once per model about failures, and once per category about its warnings."""
    for name, errors in frame.dropna(subset=["error"]).groupby("model", sort=False)["error"]:
        warnings.warn(
            f"{name} failed on {len(errors)} of {n_splits} splits, the first time with: "
            f"{errors.iloc[0]} The frame has no numbers for these; see its column error.",
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
