"""All models on all splits: what is missing is done, and kept.

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
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from inspect import isclass, signature
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from auucmax._progress import quiet, track
from auucmax._validation import check_whole, listed
from auucmax.comparison.comparison import Comparison
from auucmax.data.trial import Trial
from auucmax.estimators.base import count_parameters, fit_rows, free_random_states
from auucmax.metrics.levels import Levels

Result = dict[str, Any]  #: what was measured, None where it was not, by the names in RESULT

MEASURED = (
    "auuc", "standard_error", "gain", "gain_standard_error", "effect", "fit_seconds",
    "n_parameters",
)  # fmt: skip
RESULT = (*MEASURED, "n_train", "n_test", "error")

_LIBRARIES = {"auucmax.estimators.networks": "torch", "auucmax.estimators.lambdamart": "lightgbm"}


class Task(NamedTuple):
    """A model (with its name) and a split (by its seed) of the rows of a trial."""

    name: str
    model: Any
    seed: int
    trial: Trial
    test_size: float


class Done(NamedTuple):
    """The result of a task, and the warnings on the way."""

    name: str
    seed: int
    result: Result
    warned: list[tuple[type[Warning], str]]


def do_all(tasks: list[Task], n_jobs: int) -> Iterator[Done]:
    """Each task's result as soon as it is known, in any order."""
    if n_jobs == 1 or not tasks:
        yield from map(do, tasks)
        return
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        # One task a message: what a worker has finished is not lost with what it has not.
        pool = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    yield from pool(delayed(do)(task) for task in tasks)


def do(task: Task) -> Done:
    """Fit, score and measure; an error is a result, too."""
    train, test = task.trial.split(task.test_size, random_state=task.seed)
    result: Result = dict.fromkeys(RESULT)
    result["n_train"] = train.n_rows
    result["n_test"] = test.n_rows if test.randomised is None else int(test.randomised.sum())
    # One thread here as in the workers, or sums might be rounded differently.
    # Bars of models would write over that of the comparison.
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(limits=1), quiet():
        try:
            result |= _measure(_seeded(task.model, task.seed), train, test)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    return Done(task.name, task.seed, result, [(w.category, str(w.message)) for w in caught])


def _measure(model: Any, train: Trial, test: Trial) -> Result:
    # What only some models need, and import when they are fitted, is not part of their time.
    for part in (model, *model.get_params().values()):
        for module, library in _LIBRARIES.items():
            if type(part).__module__.startswith(module):
                with suppress(ImportError):  # the fit will say so
                    import_module(library)
    rows = {"treatment": train.treatment}
    if train.sample_weight is not None:
        rows["sample_weight"] = train.sample_weight
    start = time.perf_counter()
    fit_rows(model, train.X, train.y, **rows)
    seconds = time.perf_counter() - start
    if test.randomised is not None:
        test = test.take(test.randomised)
    score = model.predict(test.X)  # all that a model ever gets of the test rows
    of_rows: dict[str, Any] = {"sample_weight": test.sample_weight, "groups": test.groups}
    levels = Levels.of(test.y, score, treatment=test.treatment, **of_rows)
    found = levels.inference()
    numbers = (found.estimate, found.standard_error, found.gain, found.gain_standard_error,
               levels.effect())  # fmt: skip
    known = [None if np.isnan(number) else float(number) for number in numbers]
    return dict(zip(MEASURED, [*known, seconds, count_parameters(model)], strict=True))


def _seeded(model: Any, seed: int) -> Any:
    """A copy whose free random states are set, those of models inside it included."""
    # Not the stream of the split, or the draws of a model would follow those of its rows.
    own = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0] >> 1)
    return clone(model).set_params(**dict.fromkeys(free_random_states(model), own))


PathLike = str | os.PathLike[str]
Key = tuple[str, float, int, str]  # hash of the trial, test size, seed of the split, hash of model

_FORMAT = {"auucmax_compare": 2}
_MARK = b'{"auucmax_compare": 2, '  # so each line begins


@contextmanager
def open_store(
    path: PathLike | None, models: dict[str, Any], trial: Trial, test_size: float
) -> Iterator[tuple[dict[tuple[str, int], Result], Callable[[Done], None]]]:
    """Results that are known already, by name and seed, and a function that keeps another."""
    if path is None:
        yield {}, lambda done: None
        return
    file, rows = Path(path), _hash_of_trial(trial)
    hashes = {name: _hash_of_model(name, model) for name, model in models.items()}
    found = _read(file)
    known = {
        (name, seed): result
        for name, own in hashes.items()
        for (of, size, seed, model), result in found.items()
        if (of, size, model) == (rows, test_size, own)
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab", buffering=0) as sink:

        def keep(done: Done) -> None:
            key = {"trial": rows, "test_size": test_size, "seed": done.seed}
            what = {"model": hashes[done.name], "name": done.name}
            line = json.dumps(_FORMAT | key | what | done.result)
            sink.write(line.encode() + b"\n")  # one write: whole, or torn at the end of the file

        yield known, keep


def _read(path: Path) -> dict[Key, Result]:
    """Read the fits that the file holds; those that failed are left out, to be tried again."""
    data = path.read_bytes() if path.exists() else b""
    *lines, torn = data.split(b"\n")
    # A file of the user's own must neither grow nor lose its last line.
    if not (all(line.startswith(_MARK) for line in lines) and _MARK.startswith(torn[: len(_MARK)])):
        raise ValueError(
            f"resume should name a new file, or one that compare has written, got {path}, which "
            f"holds something else. Choose another name."
        )
    found = {}
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            key = line["trial"], line["test_size"], line["seed"], line["model"]
            result = {name: line[name] for name in RESULT}
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"resume should name a file of whole lines, got {path}, whose line {number} "
                f"cannot be read. Delete that line."
            ) from error
        if result["error"] is None:
            found[key] = result
    if torn:  # its writer was killed
        os.truncate(path, len(data) - len(torn))
    return found


def _hash_of_trial(trial: Trial) -> str:
    # A sum of hashes would not do: with the rows in another order, a seed is another split. Column
    # by column, because the same frame may be laid out in memory in several ways.
    columns = [(str(name), trial.X[name].to_numpy()) for name in trial.X]
    others: tuple[Any, ...] = (trial.y, trial.treatment, trial.sample_weight, trial.randomised)
    others += () if trial.groups is None else (trial.groups,)
    return str(joblib.hash((columns, others)))


def _hash_of_model(name: str, model: Any) -> str:
    """A text that tells models apart: by class, parameters, and the code of functions among these.

    Of a fitted model only what a clone keeps counts, so that a fit does not make it another one.
    """
    functions = {
        name: code for name, value in model.get_params().items() if (code := _code_of(value))
    }
    try:
        own = f"{type(model).__name__}-{joblib.hash(clone(model))}"
    except (PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"models should have parameters that can be pickled, to be recognised by resume; got "
            f"{name}: {error}. Use a function of a module, not a lambda, or leave resume out."
        ) from error
    return f"{own}-{joblib.hash(functions)}" if functions else own


def _code_of(value: Any, around: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Instructions and held values of a function, to tell it from another; () for anything else.

    A function is pickled by name, under which a notebook may since have another. ``around`` are the
    functions that hold this one.
    """
    if isinstance(value, partial):
        return _code_of(value.func, around)  # its arguments are pickled
    value = getattr(value, "__func__", value)
    if not isinstance(value, FunctionType) or value in around:
        return ()
    within: list[Any] = []
    for cell in value.__closure__ or ():
        with suppress(ValueError):  # a cell may be empty still
            within.append(cell.cell_contents)
    within += [value.__defaults__, value.__kwdefaults__]
    held = [_code_of(v, (*around, value)) or _hash_of_value(v) for v in within]
    return (*_text_of(value.__code__), held)


def _text_of(code: CodeType) -> tuple[Any, ...]:
    """Instructions, names and constants; where the text stands does not count."""
    constants = [
        _text_of(value) if isinstance(value, CodeType) else value for value in code.co_consts
    ]
    return code.co_code, code.co_names, constants


def _hash_of_value(value: Any) -> str | None:
    with suppress(PicklingError, AttributeError, TypeError):
        return str(joblib.hash(value))
    return None  # not seen


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
    (6, 12)
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
