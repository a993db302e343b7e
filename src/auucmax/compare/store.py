"""Finished fits in a file, so that a run that was stopped can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any

import joblib
from sklearn.base import clone

from auucmax.compare.fit import RESULT, Done, Result
from auucmax.data.trial import Trial

PathLike = str | os.PathLike[str]
Key = tuple[str, float, int, str]  # hash of the trial, test size, seed of the split, hash of model

_FORMAT = {"auucmax_compare": 1}
_MARK = b'{"auucmax_compare": 1, '  # so each line begins


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
