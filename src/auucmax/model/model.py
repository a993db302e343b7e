"""The fitted product: a raw table in, scores and uplift out, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats
from auucmax.certificates import Certificate, certify, certify_shares
from auucmax.certificates.known_chances import ChancesBeyond, evenly_drawn, most_people
from auucmax.data.binning import binned
from auucmax.data.few import LEAST_ROWS
from auucmax.data.hashing import MODULUS, Checksum, row_hashes
from auucmax.data.pieces import PiecedTable, pieces_of, table_of
from auucmax.encoding import TableEncoder
from auucmax.encoding.frames import frame_of
from auucmax.estimators.formula import Formula, RankMean
from auucmax.model.columns import Bounded, ColumnNames
from auucmax.model.crossfit import Recipe, Scored, TableRows
from auucmax.model.evidence import Evidence
from auucmax.model.judging import Judged, describe_drivers, evidence_of
from auucmax.model.people import describe_people
from auucmax.targeting import Calibration

_SIZES = 0.05  # of the rows tell how unlikely people may be to be in one of two of several arms
NEW_ROWS = "These rows must be new to the model: rows it was trained on make every number too good."
CHANCES_BEYOND = (
    "There is no certificate: some chances of treatment lie nearer to 0 or 1 than those of the "
    "rows that size bets let expect. Without such people there is one of the others."
)


def certified(rows: Judged, bounded: Bounded | None, n_candidates: int = 1) -> Certificate | None:
    """The certificate of a score on rows that its model has not learnt from.

    None if outcomes have no range, groups have rows of both arms, or some chances of treatment lie
    far beyond the others.
    """
    if bounded is None or rows.has_mixed_groups:
        return None
    try:
        score, options = rows.score, _certified_rows(rows, bounded)
        return certify(score[options.pop("some")], **options, n_candidates=n_candidates)
    except ChancesBeyond:
        return None


def _certified_rows(rows: Judged, bounded: Bounded) -> dict[str, Any]:
    """Which rows are certified on, ``some``, and what :func:`certify` is told of them."""
    some: Any = slice(None)
    if rows.weight is not None:
        unit = np.arange(len(rows.y)) if rows.groups is None else rows.groups
        first, draw = np.random.default_rng(0).random((2, int(unit.max()) + 1))[:, unit]
        # Of these rows nothing is certified: they tell how many people a row may stand for.
        sizes = first < _SIZES
        some = np.flatnonzero(~sizes)
        most = most_people(rows.weight[sizes])
        some = some[evenly_drawn(rows.weight[some], most, draw[some])]
    options: dict[str, Any] = {
        "some": some, "y": np.clip(rows.y[some], *bounded.range), "treatment": rows.treated[some]
    }  # fmt: skip
    if rows.groups is not None:
        options["groups"] = rows.groups[some]
    if rows.propensity is not None:
        options["propensity"] = rows.propensity[some]
    if bounded.range != (0.0, 1.0):
        options["outcome_range"] = bounded.range
    return options


def beyond_note(
    rows: Judged, bounded: Bounded | None, certificate: Certificate | None
) -> list[str]:
    """Why there is no certificate, if chances of treatment are why."""
    others = certificate is not None or bounded is None or rows.has_mixed_groups
    return [] if others else [CHANCES_BEYOND]


def certified_shares(
    chunks: Sequence[tuple[Floats, Floats | None, Bools]],
    bounded: Bounded | None,
    n_candidates: int,
) -> dict[str, Any] | None:
    """What treating all above the cuts of 20 shares gains at least, together; plain JSON.

    ``chunks`` as in :func:`auucmax.certificates.certify_shares`. There are fewer shares where less
    than 20 rows of an arm would lie between two, and None where that leaves too few.
    """
    if bounded is None or len(chunks) < 2:
        return None
    treated = np.concatenate([arms for _, _, arms in chunks[1:]])
    least = min(int(treated.sum()), int((~treated).sum())) / LEAST_ROWS
    n_shares = next((n for n in (20, 10, 4) if n <= least), None)
    if n_shares is None:
        return None
    found = certify_shares(
        [(np.clip(y, *bounded.range), score, arms) for y, score, arms in chunks],
        shares=[k / n_shares for k in range(1, n_shares + 1)],
        outcome_range=bounded.range,
        n_candidates=n_candidates,
    )
    if found is None:
        return None
    return {
        "share": [*found.shares],
        "gain_lower": [*found.gain_lower_bounds],
        "share_upper": [*found.share_upper_bounds],
        "delta": found.delta,
        "text": f"{found} {bounded.told}".rstrip(),
    }


@dataclass(eq=False, repr=False)
class TrialModel(Shown):
    """What :func:`fit_trial_model` makes: encoder, formula, calibration and evidence.

    Attributes
    ----------
    encoder : :class:`TableEncoder`, fitted on the rows that the model learnt from.
    formula : the score of encoded rows, a ``Formula`` or ``RankMean``.
    recipe : :class:`Recipe`, how rows were dealt and what was fitted.
    columns : :class:`ColumnNames`.
    calibration : score -> uplift, from rows that the models behind it had not seen.
    evidence : :class:`Evidence`, all that is known of the ranking; it holds no row.
    checksum : :class:`Checksum` of the rows of the fit.
    summary : plain JSON: model, rows, features, warnings.
    """

    encoder: TableEncoder
    formula: Formula | RankMean = field(repr=False)
    recipe: Recipe
    columns: ColumnNames
    calibration: Calibration
    evidence: Evidence = field(repr=False)
    checksum: Checksum = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @property
    def model_name(self) -> str:
        """The name that ``fit_trial_model`` was given."""
        return self.recipe.model

    @property
    def decimal(self) -> str | None:
        """The sign before decimals in the texts that the rows were read from, if it is known."""
        table = self.summary.get("table")
        found = table.get("decimal") if isinstance(table, dict) else None
        return found if found in (".", ",") else None

    @property
    def inputs(self) -> dict[str, str]:
        """The raw columns that scores are made of, and their kinds."""
        used = {term.column for term in self.encoder.terms_}
        return {c.name: c.kind for c in self.encoder.columns_ if c.name in used}

    @property
    def warning(self) -> str | None:
        """Words to say first if the model was fitted despite a failed check, or None."""
        if self.evidence["failed_check"] is None:
            return None
        verdict = self.evidence["randomisation"]["verdict"]
        return f"This model was fitted despite a failed check of its trial. {verdict}"

    @property
    def n_compared(self) -> int:
        """Among how many candidates rows may have chosen that the model did not learn from.

        Nobody can tell rows that were set aside from new ones: with a hold-out all are paid for.
        """
        return self.recipe.n_candidates if self.recipe.hold_out else 1

    @property
    def score_columns(self) -> list[str]:
        """The columns that scores are made of."""
        return [column.name for column in self.encoder.columns_]

    def predict(self, frame: Any) -> Floats:
        """Scores, (n,), of any rows with the feature columns: the higher, the sooner to treat.

        ``frame``: of pandas or polars, an Arrow table or a DuckDB relation, as are all tables here.
        """
        frame = frame_of(frame, self.score_columns)
        if len(frame) == 0:
            raise ValueError("the table should have rows to score, got none. Check its source.")
        features = self.encoder.transform(frame)  # numbers, all of them finite
        return self.formula(features)

    def uplift(self, frame: Any) -> Floats:
        """Estimated uplift per person, (n,): the calibrated score."""
        return np.asarray(self.calibration(self.predict(frame)))

    def judge(self, table: Any, *, every_percent: bool = False) -> Evidence:
        """Judge the model on the rows of a table.

        The file that it was fitted on gives the evidence of the fit. All other rows must be new to
        the model: rows it was trained on make every number too good.

        ``every_percent``: numbers at every per cent, however few rows lie between two, from which
        outcomes of single people can be told: to look at, and not to be given to others.
        """
        rows = TableRows(table, self.columns, self.recipe.key)
        scored = self.scored(rows)
        if scored.checksum == self.checksum:
            return self.evidence
        return self.judge_new(rows, scored.score, every_percent=every_percent)

    def judge_new(self, rows: TableRows, score: Floats, *, every_percent: bool) -> Evidence:
        """What rows show of the model that are new to it, with their scores."""
        rows.sample.check_copies(self.columns)
        judged = rows.judged(score)
        n_treated, n_control = int(judged.treated.sum()), int((~judged.treated).sum())
        if not every_percent and min(n_treated, n_control) < LEAST_ROWS:
            raise ValueError(
                f"new rows should be at least {LEAST_ROWS} of each arm, or numbers that are kept "
                f"would tell of single people; got {n_treated} treated and {n_control} control. "
                f"Pass more rows, or look at these by auucmax evaluate (in Python: "
                f"every_percent=True)."
            )
        bounded = self.columns.bounded(judged.y)
        certificate = certified(judged, bounded, self.n_compared)
        notes = [*filter(None, [self.warning]), NEW_ROWS, *rows.chances_told]
        return evidence_of(
            judged,
            predicted=self.calibration(judged.score),
            caveat=self.calibration.caveat,
            drivers=describe_drivers(rows.features, score[rows.sampled], share=0.3)
            | {"linear": self.evidence["drivers"]["linear"]},
            people=describe_people(binned(rows.features), score[rows.sampled], share=0.3),
            certificate=certificate,
            beyond="" if bounded is None else bounded.told,
            randomisation=rows.check(),
            lower_is_better=self.columns.lower_is_better,
            every_percent=every_percent,
            notes=[*notes, *beyond_note(judged, bounded, certificate)],
        )

    def own_rows(self, table: Any) -> TableRows:
        """The rows of the very table that the model was fitted on; ValueError for another."""
        rows = TableRows(table, self.columns, self.recipe.key)
        if self.scored(rows).checksum != self.checksum:
            raise ValueError(
                "the table should be the one that the model was fitted on, all of it, got another. "
                "Pass the file of the fit."
            )
        return rows

    def is_own(self, table: Any) -> bool:
        """Whether a table holds the people of the fit, and no others, by their features."""
        table = table_of(table, (), self.columns.all)
        n_rows = table.n_rows if isinstance(table, PiecedTable) else len(table)
        if n_rows != self.checksum.n_rows:  # known without reading it
            return False
        pieces = pieces_of(table, self.score_columns)
        sums = [int(row_hashes(self.encoder.transform(piece)).sum()) for piece in pieces]
        return sum(sums) % MODULUS == self.checksum.features

    def scored(self, rows: TableRows) -> Scored:
        """Scores of some rows, and their checksum."""
        return rows.scored(self.encoder.transform, self.formula)

    def __str__(self) -> str:
        trees, table = self.summary.get("tree_rows"), self.summary.get("table")
        learnt = table.get("learnt") if isinstance(table, dict) else None
        told = ""
        if isinstance(trees, int) and isinstance(learnt, int) and trees < learnt:
            told = f"\nIts trees learnt from {trees:,} of {learnt:,} rows, drawn at random."
        return f"{self.evidence}\n{self!r}{told}"

    def __repr__(self) -> str:
        return (
            f"TrialModel({self.model_name!r}, {len(self.columns.features)} columns, outcome "
            f"{self.columns.outcome!r}, treatment {self.columns.treatment!r})"
        )
