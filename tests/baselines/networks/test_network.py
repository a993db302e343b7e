"""Layers and scales, in numpy as in torch."""

import numpy as np
import pytest
from auucmax.baselines.networks.network import fit_scales
from tests.baselines.networks.small_networks import torch

from auucmax.baselines.networks import (
    network,
)

pytestmark = pytest.mark.gate


def test_one_head_is_fed_with_the_treatment():
    rng = np.random.default_rng(0)
    weights = network.initialise(network.one_headed(3, (5,), (4,)), rng)
    weights = {name: rng.normal(size=array.shape) for name, array in weights.items()}
    phi = network.represent(weights, rng.normal(size=(7, 3)))
    for arm, t in (("control", 0.0), ("treated", 1.0)):
        inputs = np.column_stack([phi, np.full(7, t)])
        hidden = np.maximum(inputs @ weights["head.0.weight"] + weights["head.0.bias"], 0)
        expected = hidden @ weights["head.1.weight"] + weights["head.1.bias"]
        assert network.head(weights, phi, arm) == pytest.approx(expected[:, 0])


@pytest.mark.parametrize("shapes", [network.two_headed, network.one_headed])
@pytest.mark.parametrize("normalise", [False, True])
def test_numpy_and_torch_compute_the_same(shapes, normalise):
    rng = np.random.default_rng(1)
    weights = network.initialise(shapes(6, (8, 8), (8,)), rng)
    x = rng.normal(size=(20, 6)).astype(np.float32)
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    there = network.both_arms(tensors, torch.from_numpy(x), normalise=normalise)
    here = network.both_arms(weights, x, normalise=normalise)
    for a, b in zip(here, there, strict=True):
        assert a == pytest.approx(b.numpy(), abs=1e-6)
    norms = np.linalg.norm(network.represent(weights, x, normalise=True), axis=1)
    assert norms == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", ["z-score", "min-max"])
def test_scales(kind):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(1e6, 3.0, 50), np.full(50, 7.0), rng.exponential(1e-6, 50)])
    weight = rng.integers(1, 4, 50).astype(float)
    y = rng.normal(3.0, 10.0, 50)
    scales = fit_scales(X, y, weight, kind)
    Z = scales.features(X).astype(float)
    assert (Z[:, 1] == 0).all()
    if kind == "z-score":
        assert np.average(Z, axis=0, weights=weight) == pytest.approx([0, 0, 0], abs=1e-5)
        assert np.average(Z**2, axis=0, weights=weight) == pytest.approx([1, 0, 1], abs=1e-5)
    else:
        assert Z.min(axis=0) == pytest.approx([0, 0, 0], abs=1e-6)
        assert Z.max(axis=0) == pytest.approx([1, 0, 1], abs=1e-6)
    assert not scales.binary
    assert scales.y_mean == pytest.approx(np.average(y, weights=weight))
    with pytest.raises(ValueError, match="y should have two levels, got 2 in all rows"):
        fit_scales(X, np.full(50, 2.0), None, kind)
