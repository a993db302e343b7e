"""AUUC-max along a path of norms: every candidate with its test AUUC and its selection numbers.

A way to choose (a grid, a criterion) is then a way to read the path, so many can be compared at the
cost of one. For s_poly, s(z; mu) = mu^p s(z / mu; 1): mu = 1 with norm Lambda gives the ranking of
mu = .1 with norm Lambda / 10. So the path is fitted for mu = .1 only, and mu changes which norms a
grid of given norms holds, and what the paper's bound says of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from auucmax import Trial, TrialKFold, auuc_score
from auucmax.certificates.bound import paper_bound
from auucmax.estimators.norm_search import LinearObjective, LinearPath
from auucmax.estimators.scaling import fit_scaling, scaled_radius
from auucmax.pairs import OutcomeLevels, s_poly
from auucmax.rows import ArrayRows
from experiments.harness import Line, Task
from experiments.models import rounded, start_line

MU = 0.1
PAPER_NORMS = (0.5, 0.8, 1.0)
RELATIVE_PARTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
GRIDS: dict[str, tuple[float, ...]] = {
    "relative": (0.03, 0.1, 0.3, 1.0),
    "wide": RELATIVE_PARTS,
    "upper three": (0.1, 0.3, 1.0),
    "upper two": (0.3, 1.0),
    "paper": PAPER_NORMS,
}


@dataclass(frozen=True)
class Family:
    """What a path is fitted with; "min-max, lambda" in the lines."""

    scale: str
    weights: str

    @property
    def name(self) -> str:
        return f"path: {self.scale}, {self.weights}"


FAMILIES = {
    family.name: family
    for family in (
        Family(scale, weights)
        for scale in ("min-max", "column-l2")
        for weights in ("lambda", "uniform")
    )
}


@dataclass(frozen=True)
class Rule:
    """A way to choose Lambda: a grid, in units of mu, and a criterion."""

    family: Family
    grid: str
    selection: str
    mu: float = MU

    @property
    def name(self) -> str:
        if self.selection == "none":
            return f"none, {self.family.weights}"
        words = [self.selection, self.grid, self.family.weights, self.family.scale]
        return ", ".join(words if self.mu == MU else [*words, f"mu={self.mu:g}"])

    def pick(self, path: dict[str, list[float]]) -> int:
        """The number of the chosen candidate; equal criteria: the smaller norm."""
        if self.selection == "none":
            return path["part"].index(1.0)
        if self.grid == "paper":
            wanted = [("norm", norm * MU / self.mu) for norm in PAPER_NORMS]
        else:
            wanted = [("part", part) for part in GRIDS[self.grid]]
        places = [_place(path, kind, value) for kind, value in wanted]
        if self.selection == "bound":
            return max(places, key=lambda k: path[f"bound_{self.mu:g}"][k])
        best = max(places, key=lambda k: path["cv"][k])
        if self.selection == "cv":
            return best
        least = path["cv"][best] - path["cv_standard_error"][best]
        return next(k for k in places if path["cv"][k] >= least)


def _rules() -> list[Rule]:
    by_weights = [Rule(Family("min-max", w), "", "none") for w in ("lambda", "uniform")]
    by_family = [
        Rule(family, grid, selection, mu)
        for family in FAMILIES.values()
        for grid, selection, mu in (
            ("relative", "cv", MU),
            ("relative", "cv one-se", MU),
            ("wide", "cv", MU),
            ("upper three", "cv", MU),
            ("upper two", "cv", MU),
            ("relative", "bound", MU),
            ("relative", "bound", 1.0),
        )
    ]
    # With min-max features the norms of the paper's grid never bind: the same as no constraint.
    on_paper_grid = [
        Rule(Family("column-l2", w), "paper", selection, mu)
        for w in ("lambda", "uniform")
        for selection in ("cv", "bound")
        for mu in (MU, 1.0)
    ]
    return [*by_weights, *by_family, *on_paper_grid]


RULES = _rules()


def path_parameters(name: str) -> dict[str, Any]:
    family = FAMILIES[name]
    return {"scale": family.scale, "weights": family.weights, "mu": MU, "parts": RELATIVE_PARTS}


def path_line(task: Task, train: Trial, test: Trial) -> Line:
    """Fit the path of a family on the training rows and on its folds; evaluate on the test rows."""
    family, start = FAMILIES[task.model], time.perf_counter()
    X = train.X.to_numpy()
    rows = ArrayRows(X, train.y.astype(np.float64), train.treated)
    scaling = fit_scaling(X, family.scale)
    training = LinearObjective(
        rows, scaling.factor, s_poly(MU), levels=OutcomeLevels.of(rows), weights=family.weights
    )
    linear = LinearPath("auto", task.split)
    top = linear.top_fit(training)
    free = float(np.linalg.norm(top.solution.w))
    norms = [part * free for part in RELATIVE_PARTS]
    if family.scale == "column-l2":
        norms += [norm * factor for factor in (MU, 1.0) for norm in PAPER_NORMS]
    grid = [(norm, None) for norm in norms]
    candidates = linear.fit(training, grid, top)
    judged = []
    for learn, judge in TrialKFold(5, random_state=task.split).split(
        X, rows.y, treatment=rows.treated
    ):
        how = {"treatment": rows.treated[judge]}
        fitted = linear.fit(training.take(learn), grid)
        judged.append(
            [auuc_score(rows.y[judge], X[judge] @ (c.w * scaling.factor), **how) for c in fitted]
        )
    by_fold = np.array(judged)
    seconds = time.perf_counter() - start
    test_rows = test.X.to_numpy()
    path: dict[str, list[Any]] = {
        "part": [*RELATIVE_PARTS, *[None] * (len(norms) - len(RELATIVE_PARTS))],
        "norm": norms,
        "auuc": [
            auuc_score(test.y, test_rows @ (c.w * scaling.factor), treatment=test.treatment)
            for c in candidates
        ],
        "cv": by_fold.mean(axis=0).tolist(),
        "cv_standard_error": (by_fold.std(axis=0, ddof=1) / len(by_fold) ** 0.5).tolist(),
    }
    for mu in (MU, 1.0):
        path[f"bound_{mu:g}"] = [
            paper_bound(
                rows.y,
                X @ (c.w * scaling.factor),
                treatment=rows.treated,
                norm=c.radius * mu / MU,
                radius=scaled_radius(X, scaling),
            ).lower
            for c in candidates
        ]
    head = start_line(task, path_parameters(task.model))
    return rounded(head | {"fit_seconds": seconds, "free_norm": free, "path": path})


def _place(path: dict[str, list[Any]], kind: str, value: float) -> int:
    return next(
        k
        for k, there in enumerate(path[kind])
        if there is not None and abs(there - value) <= 1e-6 * value
    )
