"""The fitted model: raw tables in, scores and uplifts out, with its evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from auucmax._errors import InputError
from auucmax._validation import Floats
from auucmax.data.hashing import MODULUS, Checksum, row_hashes
from auucmax.data.read_trial import propensity_columns, trial_of
from auucmax.data.reading import table_of
from auucmax.data.trial import Trial
from auucmax.encoding import TableEncoder
from auucmax.encoding.frames import frame_of
from auucmax.estimators.formula import Formula, RankMean
from auucmax.model.folds import Recipe
from auucmax.results import Evidence, Fit, Numbers, Roles, Shown
from auucmax.targeting.calibration import Calibration
from auucmax.targeting.quantiles import ScoreQuantiles


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores and uplifts of one arm: encoder, formula of the score, and calibration.

    The uplift is calibration(score) + slope (score - centre). With one arm the slope is 0; with
    several it is too small to matter, and orders people whom the calibration ties.
    """

    encoder: TableEncoder
    formula: Formula | RankMean
    calibration: Calibration
    quantiles: ScoreQuantiles
    slope: float = 0.0
    centre: float = 0.0

    @property
    def columns(self) -> list[str]:
        """Raw columns used by the scores."""
        return [column.name for column in self.encoder.columns_]

    def score(self, frame: Any) -> Floats:
        """Scores of raw rows, (n,)."""
        return np.asarray(self.formula(self.encoder.transform(frame)))

    def uplift(self, score: Floats) -> Floats:
        """Uplifts for scores, (n,)."""
        return self.calibration(score) + self.slope * (score - self.centre)

    def checksum(self, trial: Trial) -> Checksum:
        """The checksum of the rows of a trial."""
        return Checksum.of(self.encoder.transform(trial.X), trial.benefit, trial.arm)


@dataclass(frozen=True, eq=False, repr=False)
class UpliftModel(Shown):
    """A fitted uplift model with its evidence.

    Attributes
    ----------
    recipe : how rows were assigned to folds and what was fitted.
    scorers : one :class:`Scorer` per arm.
    evidence : :class:`auucmax.results.Evidence`; it holds no row.
    checksum : checksum of the training rows, by which their file is recognised.
    info : :class:`auucmax.results.Fit`, what was fitted on which rows.
    """

    recipe: Recipe
    scorers: tuple[Scorer, ...]
    evidence: Evidence
    checksum: Checksum
    info: Fit

    @property
    def roles(self) -> Roles:
        """Column roles for reading tables."""
        return self.evidence.roles

    @property
    def arms(self) -> tuple[str, ...]:
        """Labels of the arms, without the control."""
        return self.roles.arms[1:]

    @property
    def costs(self) -> Numbers | None:
        """Costs that the fit was given, one per arm; None if a budget is a number of people."""
        costs = self.evidence.policy.curve.costs
        return None if set(costs) == {1.0} else costs

    @property
    def columns(self) -> list[str]:
        """Raw columns used by the scores."""
        return list(dict.fromkeys(name for one in self.scorers for name in one.columns))

    @property
    def inputs(self) -> dict[str, str]:
        """Raw input columns and their kinds."""
        found: dict[str, str] = {}
        for one in self.scorers:
            used = {term.column for term in one.encoder.terms_}
            found |= {c.name: c.kind for c in one.encoder.columns_ if c.name in used}
        return found

    def scores(self, frame: Any) -> Floats:
        """Scores of raw rows, (n, K)."""
        frame = frame_of(frame, self.columns)
        if len(frame) == 0:
            raise InputError("the table", "a table with rows to score", "none", "Check its source.")
        return np.column_stack([one.score(frame) for one in self.scorers])

    def narrow(self, rows: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
        """Rows with their scores in place of the features, for :meth:`target` and :meth:`evaluate`.

        For tables that do not fit into memory: ``read_table(path, each=model.narrow)``. ``columns``
        are kept beside those of the id, the groups, treatment, outcome and propensities.
        """
        roles = replace(self.roles, features=())
        names = dict.fromkeys([*roles.columns, *columns])
        kept = rows[[name for name in names if name in rows.columns]].reset_index(drop=True)
        return pd.concat([kept, pd.DataFrame(self.scores(rows), columns=self.narrow_names)], axis=1)

    @property
    def narrow_names(self) -> list[str]:
        """Names of the columns of scores, one for each arm."""
        return [f"auucmax score {arm}" for arm in self.arms]

    def predict(self, frame: Any) -> Floats:
        """Predict scores, (n,) for one arm and (n, K) for several.

        Within an arm, people with higher scores should be treated first. ``frame`` is a frame of
        pandas or polars, an Arrow table or a DuckDB relation.
        """
        found = self.scores(frame)
        return found[:, 0] if len(self.scorers) == 1 else found

    def uplift(self, frame: Any) -> Floats:
        """Estimated uplift per person of each arm over the control, (n, K)."""
        return self.uplift_of(self.scores(frame))

    def uplift_of(self, scores: Floats) -> Floats:
        """Uplifts for scores, (n, K)."""
        return np.column_stack(
            [one.uplift(own) for one, own in zip(self.scorers, scores.T, strict=True)]
        )

    @property
    def score_names(self) -> list[str]:
        """Names of the columns of :meth:`scored`, as in SQL: with labels if there are several arms.

        They are score and uplift of the first arm, of the second and so on.
        """
        suffixes = [f" {arm}" for arm in self.arms] if len(self.arms) > 1 else [""]
        return [f"{what}{suffix}" for suffix in suffixes for what in ("score", "uplift")]

    def scored(self, frame: Any) -> pd.DataFrame:
        """Scores and uplifts of each person and arm, as a frame."""
        scores = self.scores(frame)
        both = np.stack([scores, self.uplift_of(scores)], axis=2)
        return pd.DataFrame(both.reshape(len(scores), -1), columns=self.score_names)

    def has_people(self, table: Any) -> bool:
        """Whether a table has exactly the people of the fit, by their features."""
        table = table_of(table, (), self.roles.columns)
        if len(table) != self.checksum.n_rows:
            return False
        scorer = self.scorers[0]
        if not {*scorer.columns} <= {*table.columns}:
            return False
        hashes = row_hashes(scorer.encoder.transform(table[scorer.columns]))
        return int(hashes.sum()) % MODULUS == self.checksum.features

    def read(
        self,
        table: Any,
        *,
        propensity: str | Mapping[Any, str] | None = None,
        drop_missing_outcomes: bool = False,
    ) -> Trial:
        """Read new rows (a :class:`Trial` or a table) with the roles of the fit.

        ``propensity`` names the columns of these rows if they are not those of the fit, and
        ``drop_missing_outcomes`` leaves out rows without an outcome, as in :func:`read_trial`.
        """
        if isinstance(table, Trial):
            return table
        roles = self.roles
        if isinstance(table, pd.DataFrame) and {*self.narrow_names} <= {*table.columns}:
            roles = replace(roles, features=tuple(self.narrow_names), ignored=())
        if propensity is not None:
            table = table_of(table)
            columns = propensity_columns(table, roles.treatment, propensity)
            roles = replace(roles, propensity=columns)
        if drop_missing_outcomes:
            roles = replace(roles, drop_missing_outcomes=True)
        return trial_of(table, roles)

    def evaluate(self, trial: Any, **reading: Any) -> Evidence:
        """Evaluate the model on new rows, a :class:`Trial` or a table; see :meth:`read`.

        The file of the fit gives the evidence of the fit. All other rows must be new to the model:
        rows it was trained on make every number too good.
        """
        from auucmax.model.pipeline import judge_new

        return judge_new(self, self.read(trial, **reading))

    def compare(self, trial: Any, names: Sequence[str]) -> Evidence:
        """Compare with rivals trained on the same folds; ``trial`` holds the rows of the fit."""
        from auucmax.model.pipeline import with_rivals

        return with_rivals(self, self.read(trial), names)

    def target(self, people: Any, **terms: Any) -> Any:
        """Choose whom to treat in a table; see :func:`auucmax.model.chosen.target`.

        ``terms`` are a share, a budget with its cost, or cost and value, and optionally limits,
        exclude and reasons.
        """
        from auucmax.model.chosen import target

        return target(self, people, **terms)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to a file, atomically."""
        from auucmax.model.file import save

        save(self, path)

    def report(self, path: str | os.PathLike[str], **terms: Any) -> None:
        """Write the HTML report; see :func:`auucmax.present.page.write_report`."""
        import_module("auucmax.present.page").write_report(self, path, **terms)  # above this layer

    def to_sql(self, **options: Any) -> str:
        """SQL that scores people in a database; see :func:`auucmax.export.to_sql`."""
        from auucmax.export import to_sql

        return to_sql(self, **options)

    def to_onnx(self, **options: Any) -> bytes:
        """ONNX model as bytes; see :func:`auucmax.export.to_onnx`."""
        from auucmax.export import to_onnx

        return to_onnx(self, **options)

    def to_json(self, **options: Any) -> str:
        """Score formula as JSON; see :func:`auucmax.export.to_json`."""
        from auucmax.export import to_json

        return to_json(self, **options)

    def __repr__(self) -> str:
        arms = ", ".join(map(repr, self.arms))
        return (
            f"UpliftModel({self.recipe.model!r}, {arms} against {self.roles.arms[0]!r}, outcome "
            f"{self.roles.outcome.name!r})"
        )
