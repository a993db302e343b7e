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
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._errors import visible
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
VERSION = 12  #: the only one that is read; every change of what a file holds raises it
LARGEST_FILE = 2**31  #: bytes
_HEADER = "header.json"
_LARGEST = 1e200  # of numbers in size: sums and products of some of them should not overflow
_EPOCH_ZERO = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same model, the same bytes


class ModelFileError(ValueError):
    """A file is no model that can be loaded: what was expected, what came, what to do."""


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
    members = {_HEADER: text.encode()}
    for k, one in enumerate(model.scorers):
        for name, array in to_arrays(one.formula).items():
            members[f"arm{k}.{name}.npy"] = array_bytes(array)
    with whole_file(path) as beside, zipfile.ZipFile(beside, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH_ZERO), content)


def load(path: str | os.PathLike[str]) -> UpliftModel:
    """Load a model written by :func:`save`; no code is executed.

    A ModelFileError, in one line, for a file that is missing, damaged, of another kind or version.
    """
    name = visible(Path(path).name or str(Path(path)))  # "." has no name, nor has the root
    content = _bytes(Path(path), name)
    expected = f"{name} should be a whole model file, got one that cannot be used"
    remedy = "Save the model again, or fetch the file again."
    if not content:
        raise ModelFileError(f"{expected} (it is empty). {remedy}")
    if not content.startswith(b"PK"):
        raise ModelFileError(
            f"{expected}, a table perhaps. Where a model file and a table are named, the model "
            f"file comes first."
        )
    try:
        members = _members(content)
        header = json.loads(
            members.pop(_HEADER),
            parse_float=_number,
            parse_constant=_number,
            parse_int=lambda text: int(_number(text)),
        )
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ValueError(f"it is not marked as {FORMAT}")
        version = header.get("version")
        if type(version) is not int or version < 1:
            raise ValueError("its version is no number")
        if version == VERSION:
            return _restored(Header.from_json(header), members)
    except Exception as error:  # a damaged file makes parsers raise whatever they like
        reason = visible(" ".join(f"{type(error).__name__}: {error}".split()))
        raise ModelFileError(f"{expected} ({reason[:200]}). {remedy}") from error
    what_to_do = "An older auucmax wrote it: fit the model again."
    if version > VERSION:
        what_to_do = "A newer auucmax wrote it: upgrade auucmax."
    raise ModelFileError(
        f"{name} should be a model file of version {VERSION}, got version {version}. {what_to_do}"
    )


def _bytes(path: Path, name: str) -> bytes:
    try:
        found = path.stat()
        # A device or a pipe has no size, and may have no end.
        is_file, size = stat.S_ISREG(found.st_mode), found.st_size
        if (is_file or stat.S_ISDIR(found.st_mode)) and size <= LARGEST_FILE:
            return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(
            f"{name} should be a model file that can be read, got: {reason}. Check the path."
        ) from error
    if not is_file:
        raise ModelFileError(
            f"{name} should be a model file, got a device or a pipe. Name a file: what comes "
            f"by a pipe has to be written to one first."
        )
    raise ModelFileError(
        f"{name} should be a model file of at most {LARGEST_FILE:,} bytes, got {size:,}. "
        f"auucmax wrote no such file: check the path."
    )


def _members(content: bytes) -> dict[str, bytes]:
    """Members of an archive that is not compressed: together they are no larger than it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not is_stored or sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("its members are compressed")
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("its members have equal names")
        return {entry.filename: archive.read(entry) for entry in entries}


def _number(text: str) -> float:
    """A number of a header that can be computed with."""
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{text[:50]} is no number, or too large")
    return value


def _restored(header: Header, members: dict[str, bytes]) -> UpliftModel:
    evidence = header.evidence
    scorers = [_scorer(own, members, k, evidence) for k, own in enumerate(header.scorers)]
    if header.recipe.model not in MODELS or members:
        raise ValueError("it has an unknown model, or members of no arm")
    if not scorers or not len(scorers) == len(evidence.arms) == len(evidence.roles.arms) - 1:
        raise ValueError("it should have a scorer and evidence for each arm")
    return UpliftModel(header.recipe, tuple(scorers), evidence, header.checksum, header.info)


def _scorer(saved: SavedScorer, members: dict[str, bytes], k: int, evidence: Evidence) -> Scorer:
    """The scorer of an arm, whose arrays are taken out of the members."""
    encoder = TableEncoder.from_dict(saved.encoder)
    if not {column.name for column in encoder.columns_} <= set(evidence.roles.features):
        raise ValueError("its encoder has other columns than the model")
    start, arrays = f"arm{k}.", dict[str, NDArray[Any]]()
    for name in [name for name in members if name.startswith(start)]:
        arrays[name.removeprefix(start).removesuffix(".npy")] = array_of(name, members.pop(name))
    return Scorer(
        encoder=encoder,
        formula=from_arrays(arrays, len(encoder.terms_)),
        calibration=saved.calibration,
        quantiles=saved.quantiles,
        slope=saved.slope,
        centre=saved.centre,
    )


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array of numbers as the contents of an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_of(name: str, content: bytes) -> NDArray[Any]:
    """The array of an .npy file: finite numbers, and as many as there are bytes for.

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
