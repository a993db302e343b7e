"""Fitted models as files: a zip archive of JSON and arrays, in which nothing is executed.

``header.json`` is a :class:`Header`; ``arm0.*.npy`` are the arrays of the formula of the first
arm's score, finite numbers and never pickles. No person's row is in it. Members are stored without
compression, so that what a file holds is never larger than the file itself.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._errors import InputError, visible
from auucmax._files import whole_file
from auucmax.data.hashing import Checksum
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import from_arrays, to_arrays
from auucmax.model.folds import Recipe
from auucmax.model.registry import MODELS
from auucmax.model.uplift_model import Scorer, UpliftModel
from auucmax.results import Evidence, Fit, Result
from auucmax.targeting.calibration import Calibration
from auucmax.targeting.quantiles import ScoreQuantiles

FORMAT = "auucmax model"
VERSION = 14  #: the only one that is read; every change of what a file holds raises it
LARGEST_FILE = 2**31  #: bytes
_HEADER = "header.json"
_LARGEST = 1e200  # of numbers in size: sums and products of some of them should not overflow


class ModelFileError(InputError):
    """A file is not a model that can be loaded."""


class SavedScorer(Result):
    """The scorer of an arm, without the arrays of its formula."""

    encoder: dict[str, Any]
    calibration: Calibration
    quantiles: ScoreQuantiles
    slope: float
    centre: float


class Header(Result):
    """All of a model that is not an array."""

    format: str = FORMAT
    version: int = VERSION
    recipe: Recipe
    evidence: Evidence
    info: Fit
    checksum: Checksum
    scorers: tuple[SavedScorer, ...]


def save(model: UpliftModel, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to ``path``, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import fit, make_trial
    >>> trial = make_trial(8_000, random_state=0)
    >>> model = fit(trial, "tm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/visits.model")
    ...     again = load(f"{folder}/visits.model")
    >>> bool((again.predict(trial.X) == model.predict(trial.X)).all())
    True
    """
    header = Header(
        recipe=model.recipe,
        evidence=model.evidence,
        info=model.info,
        checksum=model.checksum,
        scorers=tuple(
            SavedScorer(
                encoder=one.encoder.to_dict(),
                calibration=one.calibration,
                quantiles=one.quantiles,
                slope=one.slope,
                centre=one.centre,
            )
            for one in model.scorers
        ),
    )
    text = json.dumps(header.to_json(), separators=(",", ":"), allow_nan=False)
    with whole_file(path) as beside, zipfile.ZipFile(beside, "w") as archive:
        # Without the time of a clock: the same model has the same bytes.
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for k, one in enumerate(model.scorers):
            for name, array in to_arrays(one.formula).items():
                archive.writestr(zipfile.ZipInfo(f"arm{k}.{name}.npy"), array_bytes(array))


def load(path: str | os.PathLike[str]) -> UpliftModel:
    """Load a model written by :func:`save`; no code is executed.

    A ModelFileError for a file that is missing, damaged, of another kind or version.
    """
    path = Path(path)
    name = visible(path.name or str(path))  # "." has no name, nor has the root
    try:
        if path.is_char_device() or path.is_fifo():  # they may have no end
            raise ValueError("it is a device or a pipe")
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
            # What is not compressed is together no larger than the file.
            if not is_stored or sum(entry.file_size for entry in entries) > size:
                raise ValueError("its members are compressed")
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("its members have equal names")
            members = {entry.filename: archive.read(entry) for entry in entries}
        header = json.loads(
            members.pop(_HEADER),
            parse_float=_number,
            parse_constant=_number,
            parse_int=lambda text: int(_number(text)),
        )
        if header.get("format") != FORMAT:
            raise ValueError(f"it is not marked as {FORMAT}")
        version = header["version"]
        if version == VERSION:
            return _restored(Header.from_json(header), members)
        is_newer = version > VERSION
    except Exception as error:  # parsers raise arbitrary errors for a damaged file
        known = {FileNotFoundError: "no such file", zipfile.BadZipFile: "it is of another kind"}
        reason = visible(" ".join(f"{type(error).__name__}: {error}".split()))
        reason = known.get(type(error), reason)
        raise ModelFileError(
            name, "a whole model file", f"one that cannot be used ({reason[:200]})",
            "Check the path (a model file comes before tables), or save the model again.",
        ) from error  # fmt: skip
    hint = "An older auucmax wrote it: fit the model again."
    if is_newer:
        hint = "A newer auucmax wrote it: upgrade auucmax."
    raise ModelFileError(
        name, f"a model file of version {VERSION}", f"version {version!r:.20}", hint
    )


def _number(text: str) -> float:
    """Parse a number of a header; ValueError if it is not finite or too large."""
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{text[:50]} is no number, or too large")
    return value


def _restored(header: Header, members: dict[str, bytes]) -> UpliftModel:
    """Restore a model from its header and arrays; ValueError if they do not match."""
    evidence, scorers = header.evidence, []
    for k, saved in enumerate(header.scorers):
        encoder = TableEncoder.from_dict(saved.encoder)
        if not {column.name for column in encoder.columns_} <= set(evidence.roles.features):
            raise ValueError("its encoder has other columns than the model")
        start, arrays = f"arm{k}.", dict[str, NDArray[Any]]()
        for name in [name for name in members if name.startswith(start)]:
            own = array_of(name, members.pop(name))
            arrays[name.removeprefix(start).removesuffix(".npy")] = own
        formula = from_arrays(arrays, len(encoder.terms_))
        known = vars(saved) | {"encoder": encoder, "formula": formula}
        scorers.append(Scorer(**known))
    if header.recipe.model not in MODELS or members:
        raise ValueError("it has an unknown model, or members of no arm")
    if not scorers or not len(scorers) == len(evidence.arms) == len(evidence.roles.arms) - 1:
        raise ValueError("it should have a scorer and evidence for each arm")
    return UpliftModel(header.recipe, tuple(scorers), evidence, header.checksum, header.info)


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array of numbers as the contents of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_of(name: str, content: bytes) -> NDArray[Any]:
    """Read an .npy file of finite numbers; ValueError if its size does not match its header.

    The header is compared with the number of bytes before anything is allocated: a few bytes can
    claim to be an array of any size.
    """
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name[:50]} has an unknown array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "biuf" or expected != len(content) - stream.tell():
        raise ValueError(f"{name[:50]} has {len(content)} bytes for shape {shape} of {dtype}")
    array = np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
    if not np.isfinite(array).all():
        raise ValueError(f"{name[:50]} has values that are not finite")
    return array
