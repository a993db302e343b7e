"""The fitted product: a raw table in, scores and uplift out, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from auucmax._validation import Floats
from auucmax.bounds import certify
from auucmax.data import check_randomisation
from auucmax.data.pieces import PiecedTable
from auucmax.encoding import TableEncoder
from auucmax.targeting import Calibration
from auucmax.trial_model.crossfit import Recipe, TableRows
from auucmax.trial_model.evidence import Evidence, Judged, describe_drivers, evidence_of, is_binary
from auucmax.trial_model.rows import ColumnNames
from auucmax.trial_model.seen import Hashes, SeenRows, content_hashes, row_total


@dataclass(eq=False)
class TrialModel:
    """What :func:`fit_trial_model` makes: encoder, estimator, calibration and evidence.

    Attributes
    ----------
    encoder : :class:`TableEncoder`, fitted on the rows that the model learnt from.
    estimator : the fitted estimator of encoded rows.
    recipe : :class:`Recipe`, how rows were dealt and what was fitted.
    columns : :class:`ColumnNames`.
    calibration : score -> uplift, from rows that the models behind it had not seen.
    evidence : :class:`Evidence`, all that is known of the ranking; it holds no row.
    seen : :class:`SeenRows`, which tells rows that the model learnt from.
    summary : plain JSON: model, rows, features, warnings.
    """

    encoder: TableEncoder
    estimator: Any = field(repr=False)
    recipe: Recipe
    columns: ColumnNames
    calibration: Calibration
    evidence: Evidence = field(repr=False)
    seen: SeenRows = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @property
    def model_name(self) -> str:
        """The name that ``fit_trial_model`` was given."""
        return self.recipe.model

    def predict(self, frame: pd.DataFrame) -> Floats:
        """Scores, (n,), of any rows with the feature columns: the higher, the sooner to treat."""
        if len(frame) == 0:
            raise ValueError("the table should have rows to score, got none. Check its source.")
        return np.asarray(self.estimator.predict(self.encoder.transform(frame)), dtype=np.float64)

    def uplift(self, frame: pd.DataFrame) -> Floats:
        """Estimated uplift per person, (n,): the calibrated score."""
        return np.asarray(self.calibration(self.predict(frame)))

    def judge(self, table: pd.DataFrame | PiecedTable) -> Evidence:
        """What the rows of a table show of this model.

        The file that it was fitted on shows what was found then. Rows that the model learnt from
        are left out if ids tell them; without ids, or under others, a table with more of them than
        chance explains is refused. ``doubt`` says if that could not be seen.
        """
        rows = TableRows(table, self.columns, self.recipe.key)
        score, contents, total = self._scored(rows)
        ids = None if self.columns.id is None else rows.keys
        verdict = self.seen.judge(contents, total, ids)
        if verdict.is_own:
            return self.evidence
        new = verdict.new
        judged = Judged(rows.y[new], score[new], rows.treated[new])
        if judged.treated.all() or not judged.treated.any():
            raise ValueError(
                f"rows of both arms should be left to judge the model on, got "
                f"{int(judged.treated.sum())} treated of {len(judged.y)} rows that are new to it, "
                f"of {len(rows.y)} in the table. Pass new rows of both arms."
            )
        can_certify = verdict.is_sure and is_binary(judged.y)
        return evidence_of(
            judged,
            predicted=self.calibration(judged.score),
            caveat=self.calibration.caveat,
            drivers=describe_drivers(rows.features, score[rows.sampled], share=0.3)
            | {"linear": self.evidence["drivers"]["linear"]},
            certificate=certify(judged.score, y=judged.y, treatment=judged.treated)
            if can_certify
            else None,
            randomisation=check_randomisation(rows.sample.trial(self.columns)),
            every_percent=True,
            doubt=None if verdict.is_sure else verdict.note,
            notes=[verdict.note],
        )

    def own_rows(self, table: pd.DataFrame | PiecedTable) -> TableRows:
        """The rows of the very table that the model was fitted on; ValueError for another."""
        if not self.seen.total:
            raise ValueError(
                "the model should know the table that it was fitted on, got one that was told to "
                "forget its rows. Fit it without forget_rows."
            )
        rows = TableRows(table, self.columns, self.recipe.key)
        if not self.seen.is_own(len(rows.y), self._scored(rows)[2]):
            raise ValueError(
                "the table should be the one that the model was fitted on, all of it, got another. "
                "Pass the file of the fit."
            )
        return rows

    def _scored(self, rows: TableRows) -> tuple[Floats, Hashes, int]:
        """Scores and hashed contents of all rows, and what names them together."""
        scores, contents, total = [], [], 0
        for frame, y, treated, *_ in rows.rows.batches():
            X = self.encoder.transform(frame)
            scores.append(np.asarray(self.estimator.predict(X), dtype=np.float64))
            contents.append(content_hashes(X, self.seen.digits))
            total += row_total(X, y, treated)
        return np.concatenate(scores), np.concatenate(contents), total % 2**64

    def __repr__(self) -> str:
        return (
            f"TrialModel({self.model_name!r}, {len(self.columns.features)} columns, outcome "
            f"{self.columns.outcome!r}, treatment {self.columns.treatment!r})"
        )
