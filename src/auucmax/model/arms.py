"""A model of a raw table with several arms: one model an arm, and what their policy gains.

Each arm against the control is a :class:`TrialModel` of its own, fitted as if there were no other
arm, with its evidence, calibration and certificate. Rows of all arms are dealt into the same folds,
and the models of a fold score all rows of it, whatever arm they got: so every row has uplifts of
all arms by models that have not learnt from it, and the policy that they make is judged on all rows
(:mod:`auucmax.model.arm_evidence`).

Uplifts of different arms are weighed against each other, so they are on one scale: the calibrated
uplift, in units of the outcome. Calibration gives many people the same uplift; a slope that is too
small to matter otherwise (``TILT``) keeps their order.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._shown import Shown
from auucmax._validation import Floats, listed
from auucmax.data.chances import names_of, of_labels
from auucmax.data.pieces import table_of
from auucmax.encoding.frames import frame_of
from auucmax.metrics.arm_policy import Policy
from auucmax.model.arm_evidence import ArmsEvidence, JudgedArms, policy_curve, top_shares
from auucmax.model.columns import ColumnNames
from auucmax.model.crossfit import Fitted, TableRows, every_row
from auucmax.model.evidence import Evidence
from auucmax.model.model import TrialModel
from auucmax.model.rows import Hashes

TILT = 1e-4  #: of the outcomes' standard deviation, from the lowest score of an arm to the highest


@dataclass(eq=False, repr=False)
class ArmsModel(Shown):
    """What :func:`fit_arms_model` makes: a model for each arm, and the evidence of their policy.

    Attributes
    ----------
    models : :class:`TrialModel` of each arm against the control, by the arm's label.
    policy : what is known of the policy, as in ``ArmsEvidence.facts``.
    summary : plain JSON: rows, warnings.
    """

    models: dict[str, TrialModel]
    policy: dict[str, Any] = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @property
    def labels(self) -> list[str]:
        """Of the arms, without the control, in the order of all columns of numbers."""
        return list(self.models)

    @property
    def first(self) -> TrialModel:
        """That of the first arm, for what all arms share."""
        return next(iter(self.models.values()))

    @property
    def columns(self) -> ColumnNames:
        """Those of the first arm: all but the label of the treated is the same in all."""
        return self.first.columns

    @property
    def control(self) -> str:
        return self.columns.control

    @property
    def model_name(self) -> str:
        return self.first.model_name

    @property
    def decimal(self) -> str | None:
        return self.first.decimal

    @property
    def inputs(self) -> dict[str, str]:
        """The raw columns that scores of some arm are made of, and their kinds."""
        return {name: kind for own in self.models.values() for name, kind in own.inputs.items()}

    @property
    def evidence(self) -> ArmsEvidence:
        """All that is known of the arms and of the policy."""
        return ArmsEvidence(
            {label: model.evidence for label, model in self.models.items()}, self.policy
        )

    @property
    def warning(self) -> str | None:
        """Words to say first if an arm was fitted despite a failed check, or None."""
        return next((own.warning for own in self.models.values() if own.warning), None)

    @property
    def costs(self) -> dict[str, float] | None:
        """What each arm costs by the fit, where no other costs are given; None if it was not told.

        Costs of 1 each are those of a fit that was told none: a budget is a number of people.
        """
        costs: dict[str, float] = self.policy["curves"][-1]["costs"]
        return None if set(costs.values()) == {1.0} else costs

    def slopes(self) -> list[tuple[float, float]]:
        """(slope, centre) of each arm, whose uplift is calibration(s) + slope (s - centre)."""
        found = []
        for model in self.models.values():
            scores = model.evidence.expected.scores.score
            high, low = float(scores[0]), float(scores[-1])
            slope = self.policy["tilt"] / (high - low) if high > low else 0.0
            found.append((slope, (high + low) / 2))
        return found

    @property
    def score_columns(self) -> list[str]:
        """The columns that scores of all arms are made of."""
        own = (name for model in self.models.values() for name in model.score_columns)
        return list(dict.fromkeys(own))

    def predict(self, frame: Any) -> Floats:
        """(n, K) scores: within an arm, the higher, the sooner to treat."""
        frame = frame_of(frame, self.score_columns)
        return np.column_stack([model.predict(frame) for model in self.models.values()])

    def uplift(self, frame: Any) -> Floats:
        """(n, K) estimated uplift per person of each arm over the control, on one scale."""
        return self.uplift_of(self.predict(frame))

    def uplift_of(self, score: Floats) -> Floats:
        """(n, K) uplifts of scores."""
        columns = []
        for own, model, (slope, centre) in zip(
            score.T, self.models.values(), self.slopes(), strict=True
        ):
            columns.append(model.calibration(own) + slope * (own - centre))
        return np.column_stack(columns)

    def judge(self, table: Any, *, every_percent: bool = False) -> ArmsEvidence:
        """Judge the arms and their policy on the rows of a table, as :meth:`TrialModel.judge`.

        Curves are for the costs of the fit.
        """
        models = list(self.models.values())
        table = table_of(table, self.columns.all, self.columns.ignored)
        tables = [TableRows(table, model.columns, model.recipe.key) for model in models]
        passed = [model.scored(rows) for model, rows in zip(models, tables, strict=True)]
        if all(own.checksum == model.checksum for model, own in zip(models, passed, strict=True)):
            return self.evidence
        arms = {
            model.columns.treated: model.judge_new(rows, own.score, every_percent=every_percent)
            for model, rows, own in zip(models, tables, passed, strict=True)
        }
        everybody = AllRows.of(tables)
        judged, known = self._judged(everybody, tables, arms)
        how: dict[str, Any] = {"private": not every_percent, "known": known}
        curves = [policy_curve(judged, curve["costs"], **how) for curve in self.policy["curves"]]
        notes = _notes_of(arms)
        notes += [*everybody.chances_told, "Nothing is certified of a policy on new rows."]
        others = {k: n for k, n in tables[0].left_out.items() if k not in self.labels}
        if others:
            each = ", ".join(f"{label} {n:,}" for label, n in others.items())
            notes.append(f"Left out are rows of arms that the model does not know: {each}.")
        names = [self.control, *self.labels]
        counts = dict(zip(names, np.bincount(judged.arm, minlength=len(names)), strict=True))
        facts = {"rows": counts, "curves": curves, "certificate": None, "notes": notes}
        facts |= {"people": None, "segments": None}  # those of the fit are others
        return ArmsEvidence.of(arms, self.policy | facts)

    def _judged(
        self, everybody: AllRows, tables: Sequence[TableRows], arms: Mapping[str, Evidence]
    ) -> tuple[JudgedArms, list[tuple[Policy, Floats]]]:
        """The rows of all arms, with their uplifts; and what the evidence of each arm by itself
        tells of them."""
        score = np.column_stack([everybody.scores(model) for model in self.models.values()])
        known = []
        for k, (rows, own) in enumerate(zip(tables, arms.values(), strict=True)):
            place = everybody.places_of(rows, k)
            shares = own.expected.share
            known.append(top_shares(score[place, k], place, k, len(score), shares, rows.people))
        return everybody.judged(self.uplift_of(score)), known

    def __str__(self) -> str:
        return f"{self.evidence}\n{self!r}"

    def __repr__(self) -> str:
        return (
            f"ArmsModel({self.model_name!r}, {', '.join(map(repr, self.labels))} against "
            f"{self.control!r}, outcome {self.columns.outcome!r})"
        )


def _notes_of(arms: Mapping[str, Evidence]) -> list[str]:
    """What is noted of the arms, each note once; with the arm's label if it is not of all."""
    notes = {label: own["notes"] for label, own in arms.items()}
    return list(
        dict.fromkeys(
            note if all(note in own for own in notes.values()) else f"{label}: {note}"
            for label, some in notes.items()
            for note in some
        )
    )


class AllRows(NamedTuple):
    """The rows of the control and of each arm, in this order: ``tables`` has one for each."""

    tables: list[TableRows]

    @classmethod
    def of(cls, tables: Sequence[TableRows]) -> AllRows:
        """From those of each arm with the control, which is the same in all."""
        return cls([tables[0].of_arm(False), *(one.of_arm(True) for one in tables)])

    @property
    def y(self) -> Floats:
        return np.concatenate([one.y for one in self.tables])

    @property
    def keys(self) -> Hashes:
        return np.concatenate([one.keys for one in self.tables])

    @property
    def arm(self) -> NDArray[np.intp]:
        """(n,) 0 for the control, 1 to K."""
        return np.repeat(np.arange(len(self.tables)), [len(one.y) for one in self.tables])

    def scores(self, model: TrialModel) -> Floats:
        """(n,) scores by the model of an arm."""
        # A copy: it takes levels that only rows of other arms have.
        fitted = Fitted(copy.copy(model.encoder), {model.model_name: model.formula})
        return np.concatenate([one.scores(fitted, every_row)[0] for one in self.tables])

    @property
    def chances(self) -> Floats | None:
        """(n, K + 1) chances of the control and of each arm, if these were not the same."""
        first = self.tables[0]
        if first.chances is None or not isinstance(first.columns.propensity, tuple):
            return None
        labels = [first.columns.control, *(one.columns.treated for one in self.tables[1:])]
        found = np.concatenate([one.chances for one in self.tables if one.chances is not None])
        return of_labels(found, first.columns.propensity, labels)

    @property
    def chances_told(self) -> list[str]:
        """A sentence on unequal chances, if there are such."""
        if self.chances is None:
            return []
        columns = listed(names_of(self.tables[0].columns.propensity))
        return [
            f"Chances of the arms are taken from {columns}: all numbers weight rows by them, and "
            f"are of all people."
        ]

    def judged(self, uplift: Floats) -> JudgedArms:
        """With uplifts (n, K)."""
        groups = None
        if self.tables[0].columns.groups is not None:
            groups = np.unique(self.keys, return_inverse=True)[1]
        return JudgedArms(self.y, self.arm, uplift, groups, chance=self.chances)

    def places_of(self, rows: TableRows, arm: int) -> NDArray[np.intp]:
        """(own rows,) where the rows of an arm (0, 1, ...) and of the control are among all."""
        treated, before = rows.treated, np.cumsum([0, *self.counts()])
        places = np.empty(len(treated), dtype=np.intp)
        places[~treated] = np.arange(before[1])
        places[treated] = np.arange(before[arm + 1], before[arm + 2])
        return places

    def counts(self) -> list[int]:
        return [len(one.y) for one in self.tables]
