"""Algorithm 1 for a linear score: a candidate for each norm of a grid, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from auucmax.bounds.bound import LowerBound
from auucmax.bounds.paper import paper_gap
from auucmax.estimators.linear_path import Candidate, FreeFit, LinearPath
from auucmax.estimators.training_rows import LearningRows
from auucmax.selection import Selection, choose_by_bound, choose_by_cv, choose_by_held_out

__all__ = ["Choice", "NormSearch"]


class Choice(NamedTuple):
    """The chosen candidate, the paper's bound for it if there was a choice, a row for each."""

    best: Candidate
    paper_bound: LowerBound | None
    table: pd.DataFrame


@dataclass(frozen=True)
class NormSearch:
    """Candidates for each norm and each learning rate, and what they are compared by.

    ``norms`` go from small to large; ``relative``: they are parts of the norm of the unconstrained
    minimiser. ``selection`` is "cv", "bound", "certificate" (which takes rows held out) or None.
    """

    path: LinearPath
    radius: Callable[[], float]
    norms: Sequence[float]
    relative: bool
    learning_rates: Sequence[float | None]
    selection: str | None
    delta: float

    def choose(self, rows: LearningRows, held_out: LearningRows | None = None) -> Choice:
        """Fit all on the rows, which are scaled, and choose on them or on those held out."""
        free = self.path.free_fit(rows) if self.relative else None
        grid = self._grid(free)
        candidates = self.path.fit(rows, grid, free)
        bounds: list[LowerBound | None] = [None]  # nothing to choose: spare the sort
        if len(candidates) > 1 or self.selection is not None:
            bounds = self._paper_bounds(candidates, rows)
        if held_out is None:
            selection = self._select(grid, rows, bounds)
        else:
            apart = held_out.scaled(self.path.scaling)
            selection = choose_by_held_out(
                candidates, lambda fitted: apart.auucs([c.coef for c in fitted], "joint")
            )
        best = selection.best
        return Choice(candidates[best], bounds[best], _path_table(candidates, bounds, selection))

    def _grid(self, free: FreeFit | None) -> list[tuple[float, float | None]]:
        norms = self.norms
        if free is not None:
            # A trial in which no feature tells anything has a free norm of 0.
            norms = [(free.norm or 1.0) * part for part in norms]
        return [(norm, rate) for norm in norms for rate in self.learning_rates]

    def _select(
        self,
        grid: list[tuple[float, float | None]],
        rows: LearningRows,
        bounds: list[LowerBound | None],
    ) -> Selection:
        if self.selection == "cv" and len(grid) > 1:
            return choose_by_cv(
                lambda train: self.path.fit(train, grid),
                lambda fitted, test: test.auucs([c.coef for c in fitted], "joint"),
                rows.folds(self.path.random_state),
            )
        if len(grid) == 1:
            return Selection(0, [{}])
        return choose_by_bound(bounds, lambda bound: {"bound": bound.lower})

    def _paper_bounds(
        self, candidates: Sequence[Candidate], rows: LearningRows
    ) -> list[LowerBound | None]:
        auucs = rows.auucs([c.coef for c in candidates], "separate")
        counts = rows.class_counts()
        bounds: list[LowerBound | None] = []
        for candidate, auuc in zip(candidates, auucs, strict=True):
            # Without a constraint the norm that was reached stands for Lambda.
            reached = float(np.linalg.norm(candidate.w))
            norm = candidate.norm if np.isfinite(candidate.norm) else reached
            gap = paper_gap(*counts, norm=norm, radius=self.radius(), delta=self.delta)
            bounds.append(LowerBound("paper", lower=auuc - gap, estimate=auuc, delta=self.delta))
        return bounds


def _path_table(
    candidates: list[Candidate], bounds: list[LowerBound | None], selection: Selection
) -> pd.DataFrame:
    """A row for each candidate: what it is, what it reached, and what it was chosen by."""
    table = [
        {
            "norm": c.norm,
            "learning_rate": c.learning_rate,
            "norm_reached": float(np.linalg.norm(c.w)),
            "loss": c.loss,
            "train_auuc": np.nan if bound is None else bound.estimate,
            "paper_bound": np.nan if bound is None else bound.lower,
            "converged": c.converged,
            "residual": c.residual,
            "evaluations": c.n_evaluations,
            "seconds": c.seconds,
            **{k: v for k, v in chosen_by.items() if k != "bound"},
            "chosen": number == selection.best,
        }
        for number, (c, bound, chosen_by) in enumerate(
            zip(candidates, bounds, selection.table, strict=True)
        )
    ]
    return pd.DataFrame(table)
