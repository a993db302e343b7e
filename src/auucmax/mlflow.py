"""MLflow flavour: save, log, load and serve models.

The only module that imports mlflow. The model is stored as its own file, which holds no row and
runs no code; next to it are the page (``report.html``), the evidence (``evidence.json``) and the
card (``README.md``). Nothing is pickled.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from auucmax._errors import InputError, visible
from auucmax._optional import import_optional
from auucmax._version import __version__
from auucmax.model import UpliftModel, load
from auucmax.present import model_card, write_report

FLAVOR_NAME = "auucmax"
_FILE = "model.auucmax"
# Types of MLflow by kind of column. Texts stand for the numbers and booleans of a category, too.
_TYPES = {
    "number": "double", "code": "double", "boolean": "boolean", "category": "string",
    "date": "datetime",
}  # fmt: skip


def get_default_pip_requirements() -> list[str]:
    """Pip requirements for loading the model."""
    return [f"auucmax=={__version__}"]


def save_model(
    model: UpliftModel,
    path: str | Path,
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    metadata: Mapping[str, Any] | None = None,
    pip_requirements: Sequence[str] | str | None = None,
    extra_pip_requirements: Sequence[str] | str | None = None,
) -> None:
    """Save a model as an MLflow model folder ``path``.

    Parameters
    ----------
    model : from :func:`auucmax.fit` or :func:`auucmax.load`.
    path : a new or empty folder.
    mlflow_model : ``mlflow.models.Model`` that the flavour is added to; None: a new one.
    signature : ``ModelSignature``; None: that of :func:`signature_of`.
    metadata : more about the model, which MLflow keeps.
    pip_requirements, extra_pip_requirements : instead of, or in addition to, this version of
        auucmax.
    """
    pyfunc = import_optional("mlflow.pyfunc", extra="mlflow")
    folder = Path(path).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "path", "a new or empty folder", f"{folder.name}, with files", "Name another one."
        )
    if pip_requirements is None:
        extra = extra_pip_requirements or []
        extra = [f"-r {extra}"] if isinstance(extra, str) else extra
        pip_requirements, extra_pip_requirements = [*get_default_pip_requirements(), *extra], None
    there = next(parent for parent in folder.parents if parent.exists())
    # In a private folder, which is renamed when it is whole: half a folder would be in the way of
    # the next attempt, and files that others put there meanwhile are not ours to remove.
    with tempfile.TemporaryDirectory(prefix=".auucmax-", dir=there) as private:
        whole = Path(private) / folder.name
        described = pyfunc.Model() if mlflow_model is None else mlflow_model
        described.signature = signature_of(model) if signature is None else signature
        if metadata is not None:
            described.metadata = dict(metadata)
        described.add_flavor(
            FLAVOR_NAME,
            auucmax_version=__version__,
            data=_FILE,
            model=model.recipe.model,
            arms=list(model.arms),
        )
        pyfunc.save_model(
            str(whole),
            loader_module=__name__,
            mlflow_model=described,
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
        )
        model.save(whole / _FILE)
        write_report(model, whole / "report.html")
        (whole / "README.md").write_text(model_card(model), encoding="utf-8")
        evidence = json.dumps(model.evidence.to_json(), allow_nan=False, indent=1)
        (whole / "evidence.json").write_text(evidence, encoding="utf-8")
        described.model_size_bytes = sum(file.stat().st_size for file in whole.iterdir())
        described.save(str(whole / "MLmodel"))
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            folder.rmdir()
        whole.rename(folder)


def log_model(model: UpliftModel, name: str = "model", **options: Any) -> Any:
    """Log a model to the current (or a new) run; return MLflow's ``ModelInfo``.

    Its page, card and evidence are artifacts of it. ``options`` are those of :func:`save_model`,
    and those of ``log_model`` of any flavour: ``registered_model_name``, ``params``, ``tags``.
    """
    mlflow = import_optional("mlflow", extra="mlflow")
    return mlflow.models.Model.log(
        artifact_path=None,  # the former word for the name
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        **options,
    )


def load_model(model_uri: str | Path) -> UpliftModel:
    """Load a model with its evidence from an MLflow folder or URI.

    ``mlflow.pyfunc.load_model`` gives what every tool of MLflow can call.
    """
    mlflow = import_optional("mlflow", extra="mlflow")
    folder = mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri))
    flavors = mlflow.models.Model.load(folder).flavors
    if FLAVOR_NAME not in flavors:
        raise InputError(
            "the model", f"of the flavour {FLAVOR_NAME}", visible(", ".join(flavors))[:200],
            "Load it by the library that saved it.",
        )  # fmt: skip
    return _loaded(Path(folder))


def _loaded(folder: Path) -> UpliftModel:
    """Load the model file of a folder, which must lie in it (no links)."""
    file = (folder / _FILE).resolve()
    if file.parent != folder.resolve():
        raise InputError(
            _FILE, "a file of the model's folder", "a link out of it",
            "Log the model again, or copy the file into the folder.",
        )  # fmt: skip
    return load(file)


def signature_of(model: UpliftModel) -> Any:
    """MLflow ``ModelSignature``: input columns and result columns.

    Numbers are doubles, into which MLflow turns no 64-bit integers: convert these, or pass another
    signature.
    """
    types = import_optional("mlflow.types", extra="mlflow")
    models = import_optional("mlflow.models", extra="mlflow")
    inputs = [types.ColSpec(_TYPES[kind], name) for name, kind in model.inputs.items()]
    outputs = [types.ColSpec("double", name) for name in model.score_names]
    outputs.append(types.ColSpec("string", "arm"))
    return models.ModelSignature(types.Schema(inputs), types.Schema(outputs))


def _load_pyfunc(path: str) -> _Scores:
    """Load the model as a pyfunc; called by MLflow."""
    return _Scores(_loaded(Path(path)))


class _Scores:
    """Pyfunc wrapper: a frame in, a frame of scores out."""

    def __init__(self, model: UpliftModel) -> None:
        self._model = model

    def get_raw_model(self) -> UpliftModel:
        """The wrapped model, for MLflow's ``unwrap_python_model``."""
        return self._model

    def predict(self, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Score and uplift for each arm, and the arm of the highest uplift.

        That is the control if no uplift is above 0: costs are for ``model.target``.
        """
        found = self._model.scored(model_input)
        uplift = found.to_numpy()[:, 1::2]
        best = np.where(uplift.max(axis=1) > 0, 1 + uplift.argmax(axis=1), 0)
        return found.assign(arm=np.array(self._model.roles.arms, dtype=object)[best])
