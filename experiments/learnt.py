"""AUUC-max on a learned representation, which the paper conjectures to help; and a network.

:class:`OnEnsemble` adds w.phi(x) to the score of an ensemble, phi what its members learned: the
leaves of their trees, or their log-odds. w minimises the objective of AUUC-max over ||w|| <= Lambda
on rows that the ensemble was not trained on, and Lambda = 0 is the ensemble's own order.

:class:`AUUCNet` is a network that is first fitted by likelihood, and then moved by the gradient of
the same objective, which the pair engine gives for each row's score.

Both are here to be tried (:mod:`experiments.arena`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from auucmax import TrialKFold, auuc_score
from auucmax._optional import import_optional
from auucmax.estimators import UpliftEnsemble
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.formula import TreeScores
from auucmax.pairs import PairObjective, ScoreObjective, s_poly
from auucmax.solvers import minimise_over_ball

Floats = NDArray[np.float64]

NORMS = (0.0, 0.03, 0.1, 0.3)  # the ensemble's scores lie between 0 and 1
SURROGATE = s_poly(1.0)  # bends on the scale of these scores
KINDS = ("leaves", "logits")


class Shifted:
    """The objective of the score offset + Z w as a function of w.

    The offset is a column whose coefficient is held at 1.
    """

    def __init__(self, Z: Floats, offset: Floats, y: Any, *, treatment: Any) -> None:
        columns = np.column_stack([Z, offset])
        self.pairs = PairObjective(columns, y, treatment=treatment, surrogate=SURROGATE)

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        value, gradient = self.pairs.value_and_gradient(np.append(w, 1.0))
        return value, gradient[:-1]


class Part(NamedTuple):
    """An ensemble of some folds, and the w of the fold that it has not seen."""

    ensemble: Any
    phi: Any
    w: Floats

    def score(self, X: Any) -> Floats:
        return np.asarray(self.ensemble.predict(X) + self.phi(X) @ self.w)


class OnEnsemble(UpliftEstimator):
    """Mean over folds k of ensemble_k(x) + w_k.phi_k(x), ||w_k|| <= Lambda.

    The ensemble of fold k is trained on the other folds, w_k on fold k. Lambda, 0 among them,
    is the one with the best AUUC on halves of the folds that w is not trained on either.
    """

    needs_binary = True

    def __init__(
        self,
        kind: str = "leaves",
        *,
        ensemble: Any = None,
        norms: tuple[float, ...] = NORMS,
        n_folds: int = 4,
        random_state: int = 0,
        control: Any = None,
    ) -> None:
        self.kind = kind
        self.ensemble = ensemble
        self.norms = norms
        self.n_folds = n_folds
        self.random_state = random_state
        self.control = control

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        folds = TrialKFold(self.n_folds, by="treatment-outcome", random_state=self.random_state)
        made = UpliftEnsemble() if self.ensemble is None else self.ensemble
        given, found = [], np.zeros(len(self.norms))
        for others, own in folds.split(X, y, treatment=treated):
            ensemble = clone(made).set_params(random_state=self.random_state)
            ensemble.fit(X[others], y[others], treatment=treated[others])
            phi = (Leaves if self.kind == "leaves" else Logits)(ensemble, X[others])
            rows = phi(X[own]), ensemble.predict(X[own]), y[own], treated[own]
            given.append((ensemble, phi, rows))
            found += self._judge(*rows)
        # Equal AUUC: the smaller norm, which is nearer to the ensemble.
        self.norm_ = self.norms[int(np.argmax(found))]
        self.auucs_ = found / self.n_folds
        self.parts_ = [Part(e, phi, fit_shifted(*rows, self.norm_)) for e, phi, rows in given]
        self.n_parameters_ = None

    def _judge(self, Z: Floats, offset: Floats, y: Any, treated: Any) -> Floats:
        """Mean AUUC of each norm on one half of the rows, with the w of the other half."""
        halves = TrialKFold(2, by="treatment-outcome", random_state=self.random_state)
        found = []
        for learn, test in halves.split(Z, y, treatment=treated):
            own = Z[learn], offset[learn], y[learn], treated[learn]
            scores = [offset[test] + Z[test] @ fit_shifted(*own, norm) for norm in self.norms]
            found.append([auuc_score(y[test], s, treatment=treated[test]) for s in scores])
        return np.mean(found, axis=0)

    def _predict(self, X: Any) -> Floats:
        return np.mean([part.score(X) for part in self.parts_], axis=0)


def fit_shifted(Z: Floats, offset: Floats, y: Any, treated: Any, norm: float) -> Floats:
    """w with ||w|| <= norm of the score offset + Z w."""
    zero = np.zeros(Z.shape[1])
    if norm == 0 or not Z.shape[1]:
        return zero
    objective = Shifted(Z, offset, y, treatment=treated)
    # Balls are so small, and columns so many, that a few gradients do what a Hessian would.
    with threadpool_limits(limits=1, user_api="blas"):
        found = minimise_over_ball(objective, norm, start=zero, method="projected", tolerance=1e-4)
    return found.w


class Leaves:
    """phi(x): which leaf of each tree x falls into, a column a leaf; rows have norm 1."""

    def __init__(self, ensemble: Any, X: Any) -> None:
        members = ensemble.formula().members
        self.trees: list[TreeScores] = [own for member in members for own in member.trees]
        self.n_trees = sum(len(own.roots) for own in self.trees)

    def __call__(self, X: Any) -> Floats:
        blocks = [np.zeros((len(X), 0))]
        for own in self.trees:
            is_leaf = own.left == np.arange(len(own.left))
            block = np.zeros((len(X), int(is_leaf.sum())))
            places = (np.cumsum(is_leaf) - 1)[leaves_of(own, X)]
            np.put_along_axis(block, places, 1 / np.sqrt(self.n_trees), axis=1)
            blocks.append(block)
        return np.hstack(blocks)


def leaves_of(trees: TreeScores, X: Any) -> NDArray[np.int64]:
    """(n, trees) the node at which each row ends in each tree."""
    node = np.repeat(trees.roots[None, :], len(X), axis=0)
    rows = np.arange(len(X))[:, None]
    for _ in range(trees.depth):
        x = X[rows, trees.feature[node]]
        goes_left = (x <= trees.threshold[node]) | (np.isnan(x) & trees.missing_left[node])
        node = np.where(goes_left, trees.left[node], trees.right[node])
    return node


class Logits:
    """phi(x): the scores of the members, and the log-odds of either arm in boosted ones; sd 1."""

    def __init__(self, ensemble: Any, X: Any) -> None:
        self.models = ensemble.estimators_
        found = self._raw(X)
        spread = found.std(axis=0)
        self.mean, self.spread = found.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def _raw(self, X: Any) -> Floats:
        columns = [model.predict(X) for model in self.models]
        for formula in (model.formula() for model in self.models):
            if formula.trees:
                plain = [replace(part, weight=1.0, link="identity") for part in formula.parts]
                columns += [replace(formula, parts=(part,))(X) for part in plain]
        return np.column_stack(columns)

    def __call__(self, X: Any) -> Floats:
        found = (self._raw(X) - self.mean) / self.spread
        return np.asarray(found / np.sqrt(found.shape[1]))


# A network.


class AUUCNet(UpliftEstimator):
    """Base log-odds g(x) and effect f(x) of one network; score P(y | treated) - P(y | control).

    First by likelihood, logit P(y = 1) = g + d f with d = t - share treated, Adam with early
    stopping; then all rows at once by the objective of AUUC-max on the scores in units of their
    standard deviation, as long as the AUUC of the rows that are kept apart improves. With
    ``auuc_epochs=0`` it stays the likelihood fit.
    """

    needs_binary = True

    def __init__(
        self,
        *,
        hidden: int = 64,
        epochs: int = 100,
        auuc_epochs: int = 100,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        random_state: int = 0,
        control: Any = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.auuc_epochs = auuc_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.control = control

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        torch = import_optional("torch", extra="deep")
        spread = X.std(axis=0)
        self.mean_, self.spread_ = X.mean(axis=0), np.where(spread > 0, spread, 1.0)
        self.share_ = float(treated.mean())
        folds = TrialKFold(5, by="treatment-outcome", random_state=self.random_state)
        learn, judge = next(iter(folds.split(X, y, treatment=treated)))
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            torch.manual_seed(self.random_state)
            layers = [torch.nn.Linear(X.shape[1], self.hidden), torch.nn.ELU()]
            layers += [torch.nn.Linear(self.hidden, self.hidden), torch.nn.ELU()]
            self.net_ = torch.nn.Sequential(*layers, torch.nn.Linear(self.hidden, 2))
            rows = torch.as_tensor((X - self.mean_) / self.spread_, dtype=torch.float32)
            d = torch.as_tensor(treated - self.share_, dtype=torch.float32)
            outcome = torch.as_tensor(y, dtype=torch.float32)
            self.likelihood_epochs_ = self._by_likelihood(torch, rows, d, outcome, learn, judge)
            self.auuc_epochs_ = self._by_auuc(torch, rows, y, treated, learn, judge)
        finally:
            torch.set_num_threads(before)
        self.n_parameters_ = sum(p.numel() for p in self.net_.parameters())

    def _by_likelihood(self, torch: Any, rows: Any, d: Any, y: Any, learn: Any, judge: Any) -> int:
        loss = torch.nn.BCEWithLogitsLoss()

        def logit(index: Any) -> Any:
            base, effect = self.net_(rows[index]).T
            return base + d[index] * effect

        def epoch(step: Any) -> None:
            for batch in torch.as_tensor(learn)[torch.randperm(len(learn))].split(256):
                step(loss(logit(batch), y[batch]))

        return self._train(torch, epoch, lambda: -float(loss(logit(judge), y[judge])), self.epochs)

    def _by_auuc(self, torch: Any, rows: Any, y: Any, treated: Any, learn: Any, judge: Any) -> int:
        if not self.auuc_epochs:
            return 0
        objective = ScoreObjective(y[learn], treatment=treated[learn], surrogate=SURROGATE)
        with torch.no_grad():
            scale = float(self._score(torch, rows[learn]).std()) or 1.0

        def epoch(step: Any) -> None:
            step(pair_loss(torch, objective)(self._score(torch, rows[learn]) / scale))

        def judged() -> float:
            score = self._score(torch, rows[judge]).numpy()
            return auuc_score(y[judge], score, treatment=treated[judge])

        return self._train(torch, epoch, judged, self.auuc_epochs)

    def _train(self, torch: Any, epoch: Any, judged: Any, epochs: int, patience: int = 10) -> int:
        """Adam until ``judged`` has not risen for some epochs; the best weights are kept."""
        adam = torch.optim.AdamW(
            self.net_.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )

        def step(loss: Any) -> None:
            adam.zero_grad()
            loss.backward()
            adam.step()

        def state() -> dict[str, Any]:
            return {name: value.clone() for name, value in self.net_.state_dict().items()}

        with torch.no_grad():
            best, kept, at = judged(), state(), 0
        for number in range(1, epochs + 1):
            epoch(step)
            with torch.no_grad():
                now = judged()
            if now > best:
                best, kept, at = now, state(), number
            elif number - at >= patience:
                break
        self.net_.load_state_dict(kept)
        return at

    def _score(self, torch: Any, rows: Any) -> Any:
        base, effect = self.net_(rows).T
        return torch.sigmoid(base + (1 - self.share_) * effect) - torch.sigmoid(
            base - self.share_ * effect
        )

    def _predict(self, X: Any) -> Floats:
        torch = import_optional("torch", extra="deep")
        rows = torch.as_tensor((X - self.mean_) / self.spread_, dtype=torch.float32)
        with torch.no_grad():
            base, effect = self.net_(rows).double().numpy().T
        return np.asarray(
            expit(base + (1 - self.share_) * effect) - expit(base - self.share_ * effect)
        )


def pair_loss(torch: Any, objective: ScoreObjective) -> Any:
    """A torch function from the scores of all rows to the objective, with its gradient."""

    class PairLoss(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, score: Any) -> Any:
            found = objective.derivatives(score.detach().double().numpy())
            ctx.save_for_backward(torch.as_tensor(found.gradient, dtype=score.dtype))
            return torch.as_tensor(found.value, dtype=score.dtype)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * ctx.saved_tensors[0]

    return PairLoss.apply
