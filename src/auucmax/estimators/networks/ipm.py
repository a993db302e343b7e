"""Distances between the representations of treated and control rows (Shalit et al. 2017).

Each takes torch tensors ``treated`` (n_t, k) and ``control`` (n_c, k) and the weights of their
rows, and returns a scalar with a gradient. All are 0 in expectation for arms with the same
distribution, or as the rows grow in number. The reference code of the paper multiplies the arms by
their shares in the trial; here both count one half, so that equal distributions have distance 0
whatever the shares.
"""

from __future__ import annotations

from typing import Any

__all__ = ["IPMS", "mmd_linear", "mmd_rbf", "wasserstein"]

Tensor = Any

STRENGTH = 10.0  # the kernel falls by a factor of e over a tenth of the mean distance
ITERATIONS = 10


def mmd_linear(treated: Tensor, control: Tensor, w_t: Tensor, w_c: Tensor) -> Tensor:
    """Distance of the means, || mean of treated - mean of control ||."""
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    return (a @ treated - b @ control).norm()


def mmd_rbf(treated: Tensor, control: Tensor, w_t: Tensor, w_c: Tensor) -> Tensor:
    """Squared maximum mean discrepancy of the kernel exp(-||a - b||^2 / sigma^2), unbiased.

        mean of k over treated pairs + the same of control pairs - 2 mean of k between the arms

    over pairs of distinct rows. sigma^2 is the mean squared distance between the arms (no gradient
    passes through it), so the units of the representation do not matter.
    """
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    between = _squared_distances(treated, control)
    scale = (a @ between.detach() @ b).clip(min=1e-12)

    def within(rows: Tensor, weight: Tensor) -> Tensor:
        kernel = (-_squared_distances(rows, rows) / scale).exp()
        same = (weight * weight * kernel.diagonal()).sum()
        return (weight @ kernel @ weight - same) / (1 - (weight * weight).sum())

    return within(treated, a) + within(control, b) - 2 * (a @ (-between / scale).exp() @ b)


def wasserstein(
    treated: Tensor,
    control: Tensor,
    w_t: Tensor,
    w_c: Tensor,
    *,
    strength: float = STRENGTH,
    iterations: int = ITERATIONS,
) -> Tensor:
    """Earth mover's distance, sum of plan * distance, with the plan of Sinkhorn's iterations.

    The plan is diag(u) exp(-strength * distance / mean distance) diag(v), scaled in turn to the
    marginals; the gradient passes through the distances only.
    """
    distance = (_squared_distances(treated, control) + 1e-12) ** 0.5
    a, b = w_t / w_t.sum(), w_c / w_c.sum()
    cost = distance.detach()
    cost = strength * cost / cost.mean()
    # u and v absorb what is subtracted here; each row and column keeps an entry of 1, so that no
    # sum underflows.
    cost = cost - cost.min(1, keepdim=True).values
    cost = cost - cost.min(0, keepdim=True).values
    kernel = (-cost).exp()
    u = a
    for _ in range(iterations):
        v = b / (u @ kernel)
        u = a / (kernel @ v)
    return (u[:, None] * kernel * v * distance).sum()


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)
    return (squares - 2 * a @ b.T).clip(min=0)


#: By the name that ``CFRNet`` takes.
IPMS = {"mmd-linear": mmd_linear, "mmd-rbf": mmd_rbf, "wasserstein": wasserstein}
