"""One model on one split: fit, score, measure; in this process or in others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from auucmax._progress import quiet
from auucmax.data.trial import Trial
from auucmax.estimators.base import count_parameters, fit_rows, free_random_states
from auucmax.evaluation.metrics import auuc_inference

Result = dict[str, Any]  #: what was measured, None where it was not, by the names in RESULT

MEASURED = ("auuc", "standard_error", "gain", "gain_standard_error", "fit_seconds", "n_parameters")
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
    found = auuc_inference(test.y, score, treatment=test.treatment, **of_rows)
    numbers = (found.estimate, found.standard_error, found.gain, found.gain_standard_error)
    known = [None if np.isnan(number) else float(number) for number in numbers]
    return dict(zip(MEASURED, [*known, seconds, count_parameters(model)], strict=True))


def _seeded(model: Any, seed: int) -> Any:
    """A copy whose free random states are set, those of models inside it included."""
    own = int(np.random.SeedSequence([seed, 1]).generate_state(1)[0] >> 1)  # not the split's stream
    return clone(model).set_params(**dict.fromkeys(free_random_states(model), own))
