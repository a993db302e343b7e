"""From a table of trial rows to a model with its evidence: split, encode, fit, calibrate, judge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from auucmax._json import plain
from auucmax._validation import check_choice, check_level, listed
from auucmax._version import __version__
from auucmax.bounds import certify
from auucmax.data import check_randomisation
from auucmax.data.pieces import PiecedTable
from auucmax.encoding.encoder import text_names
from auucmax.encoding.texts import arm_text
from auucmax.estimators import (
    GANITE,
    AUUCMax,
    CFRNet,
    ClassTransformation,
    DependentDataRepresentation,
    MinimaxLinear,
    SharedDataRepresentation,
    SVMDifferentialPrediction,
    TARNet,
    TransformedOutcome,
    TwoModels,
    UpliftLambdaMART,
)
from auucmax.evaluation import auuc_inference
from auucmax.targeting import Calibration, calibrate
from auucmax.trial_model.model import JudgedRows, TrialModel
from auucmax.trial_model.parts import Dealing, DealtRows, Part, deal_rows
from auucmax.trial_model.rows import ColumnNames, check_names, different_values

__all__ = ["MODELS", "fit_trial_model", "name_columns"]

#: Estimators by the name that users give, with their defaults; each takes a seed.
MODELS: dict[str, Callable[[int], Any]] = {
    "auucmax": lambda seed: AUUCMax(random_state=seed),
    "tm": lambda seed: TwoModels(),
    "cvt": lambda seed: ClassTransformation(),
    "ddr": lambda seed: DependentDataRepresentation(),
    "sdr": lambda seed: SharedDataRepresentation(),
    "svm-dp": lambda seed: SVMDifferentialPrediction(),
    "mml": lambda seed: MinimaxLinear(random_state=seed),
    "mom": lambda seed: TransformedOutcome(),
    "pcg": lambda seed: UpliftLambdaMART("pcg", random_state=seed),
    "ndcg": lambda seed: UpliftLambdaMART("ndcg", random_state=seed),
    "tarnet": lambda seed: TARNet(random_state=seed),
    "cfrnet": lambda seed: CFRNet(random_state=seed),
    "ganite": lambda seed: GANITE(random_state=seed),
}


#: Labels of control and treated that need no telling.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


def fit_trial_model(
    table: pd.DataFrame | PiecedTable,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    model: str = "auucmax",
    test_share: float = 0.3,
    calibration_share: float = 0.2,
    random_state: int | np.random.Generator | None = 0,
) -> TrialModel:
    """Fit a model on some rows of a table, calibrate it on others and judge it on the rest.

    The three parts have no row in common, and nothing of the model, encoding included, is learnt
    from the test rows. AUUC with its interval and the certificate are of the test rows only.

    Parameters
    ----------
    table : a row for each person, raw: numbers, texts, booleans, dates, missing values. A table
        that is read in pieces (:func:`auucmax.data.open_table`) can be learnt from by "auucmax"
        alone. At most 2 million of its rows are kept to judge and 1 million to calibrate, and the
        encoder learns from a quarter of a million rows.
    treatment, outcome : names of columns. A higher outcome is better.
    treated, control : labels of the two arms, when treatment is not 0/1 or boolean. Rows of other
        arms are left out, and counted in ``summary``.
    id : name of a column that tells rows apart, whatever their order.
    features : names of the columns to learn from; None: all others.
    model : one of "auucmax", "tm", "cvt", "ddr", "sdr", "svm-dp", "mml", "mom", "pcg", "ndcg",
        "tarnet", "cfrnet", "ganite".
    test_share, calibration_share : about these shares of the rows; without calibration rows the
        model ranks but does not tell uplift.
    random_state : of the parts and of the model.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit")
    >>> model.summary["certificate"]["gain_lower_bound"] > 0
    True
    >>> model.predict(table.head(3)).shape
    (3,)
    >>> print(model.held_out(table).note)
    12,833 of 42,693 rows: the others are rows that the model was fitted or calibrated on, which are
    no evidence.
    """
    check_choice(model, "model", MODELS)
    _check_shares(test_share, calibration_share)
    if isinstance(table, PiecedTable):
        _check_streams(model, table)
    columns = name_columns(
        table,
        treatment=treatment,
        outcome=outcome,
        treated=treated,
        control=control,
        id=id,
        features=features,
    )
    rng = np.random.default_rng(random_state)
    key, seed = rng.bytes(8).hex(), int(rng.integers(2**31 - 1))
    dealing = Dealing(float(test_share), float(calibration_share), key)
    with _collected() as messages, deal_rows(table, columns, dealing) as rows:
        estimator = rows.parts["train"].fit(MODELS[model](seed))
        calibration = _calibration(estimator, rows.parts.get("calibration"))
        judged = rows.parts["test"].judged(estimator)
        evidence = _evidence(judged, rows, columns)
    summary = {
        "auucmax": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "model": model,
        "rows": {
            "given": rows.n_given,
            "used": rows.split.n_rows,
            "left_out": rows.left_out,
            "parts": rows.counts,
        },
        "features": {
            "columns": len(rows.encoder.columns_),
            "terms": len(rows.encoder.terms_),
            "dropped": dict(rows.encoder.dropped_),
        },
        **evidence,
        "warnings": messages,
    }
    return TrialModel(
        rows.encoder, estimator, model, columns, rows.split, calibration, plain(summary), judged
    )


def name_columns(
    table: pd.DataFrame | PiecedTable,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
) -> ColumnNames:
    """Which columns of a table play which part; parameters as in :func:`fit_trial_model`.

    >>> frame = pd.DataFrame({"mail": ["yes", "no"], "visit": [1, 0], "age": [30, 40]})
    >>> names = name_columns(frame, treatment="mail", outcome="visit", control="no")
    >>> names.treated, names.features
    ('yes', ('age',))
    """
    if not isinstance(table, PiecedTable):
        table = text_names(table)
    treatment, outcome = str(treatment), str(outcome)
    id = None if id is None else str(id)
    check_names(table, [name for name in (treatment, outcome, id) if name is not None])
    return ColumnNames(
        treatment,
        outcome,
        id,
        *_arm_labels(different_values(table, treatment), treatment, treated, control),
        features=_features(table, features, (treatment, outcome, id)),
    )


def _calibration(estimator: Any, part: Part | None) -> Calibration | None:
    if part is None:
        return None
    rows = part.judged(estimator)
    return calibrate(rows.y, rows.score, treatment=rows.treatment)


def _evidence(test: JudgedRows, rows: DealtRows, columns: ColumnNames) -> dict[str, Any]:
    """What the test rows show, and whether the trial looks randomised."""
    certificate = certify(test.score, y=test.y, treatment=test.treatment)
    report = check_randomisation(rows.trial)
    means = [float(test.y[test.treatment == arm].mean()) for arm in (1, 0)]
    return {
        "outcome": {
            "name": columns.outcome,
            "binary": rows.is_binary,
            "test_mean_treated": means[0],
            "test_mean_control": means[1],
        },
        "randomisation": {
            "ok": report.ok,
            "verdict": report.verdict,
            "n_rows": len(rows.trial.y),
            "advice": list(report.advice),
        },
        "test": asdict(auuc_inference(test.y, test.score, treatment=test.treatment)),
        "certificate": asdict(certificate) | {"text": str(certificate)},
    }


def _arm_labels(values: Sequence[Any], name: str, treated: Any, control: Any) -> tuple[str, str]:
    """Labels of the two arms as texts; one that is not given is the other of two."""
    labels = sorted({arm_text(value) for value in values}, key=str.lower)
    given = {
        k: arm_text(v) for k, v in (("treated", treated), ("control", control)) if v is not None
    }
    for what, label in given.items():
        if label not in labels:
            raise ValueError(
                f"{what} should be one of the labels of {name!r}, {listed(labels)}; got {label!r}. "
                f"Check the spelling."
            )
    if not given and tuple(label.lower() for label in labels) in NO_AND_YES:
        return labels[1], labels[0]
    if len(given) == 2 and given["treated"] != given["control"]:
        return given["treated"], given["control"]
    if len(given) == 1 and len(labels) == 2:
        ((what, label),) = given.items()
        other = labels[1 - labels.index(label)]
        return (label, other) if what == "treated" else (other, label)
    raise ValueError(
        f"the treatment {name!r} should be 0/1 or boolean, or come with the labels of two arms; "
        f"got the labels {listed(labels)}. Pass treated=... and control=..., two of them."
    )


def _features(
    table: pd.DataFrame | PiecedTable,
    features: Sequence[str] | None,
    others: tuple[str | None, ...],
) -> tuple[str, ...]:
    if features is None:
        chosen = [name for name in table.columns if name not in others]
    else:
        given = [features] if isinstance(features, str) else features
        chosen = list(dict.fromkeys(str(name) for name in given))
        check_names(table, chosen)
        if wrong := [name for name in chosen if name in others]:
            raise ValueError(
                f"features should be other columns than treatment, outcome and id, got "
                f"{listed(wrong)}. Leave them out."
            )
    if not chosen:
        raise ValueError(
            "features should be at least one column, got none beside treatment, outcome and id. "
            "Pass a table with features."
        )
    return tuple(chosen)


def _check_shares(test_share: float, calibration_share: float) -> None:
    check_level(test_share, "test_share")
    if calibration_share != 0:
        check_level(calibration_share, "calibration_share")
    if test_share + calibration_share >= 1:
        raise ValueError(
            f"test_share and calibration_share should leave rows to learn from, got "
            f"{test_share:g} and {calibration_share:g}. Try 0.3 and 0.2."
        )


def _check_streams(model: str, table: PiecedTable) -> None:
    if model != "auucmax":
        raise ValueError(
            f"model should be 'auucmax' for a table that does not fit into memory, got {model!r} "
            f"and {table.name}, {table.size}. Pass fewer rows or columns, or allow more memory."
        )


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Messages of the warnings inside, which are given again afterwards."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
        own = [w for w in caught if issubclass(w.category, UserWarning)]
        messages.extend(dict.fromkeys(str(w.message) for w in own))
    for warning in {str(w.message): w for w in own}.values():
        warnings.warn(warning.message, warning.category, stacklevel=4)
