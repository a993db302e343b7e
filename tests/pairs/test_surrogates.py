import numpy as np
import pytest
from tests.pairs.pair_rows import every

from auucmax.pairs import get_surrogate, hinge, s_log, s_poly, sigmoid

Z = np.linspace(-3.02, 3.01, 404)


@every
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_agree_with_differences(s, order):
    z = Z * s.length
    if s.knot is not None:
        z = z[np.abs(z - s.knot) > 1e-3 * s.length]
    step = 1e-5 * s.length
    slope = (s.derivative(z + step, order - 1) - s.derivative(z - step, order - 1)) / (2 * step)
    exact = s.derivative(z, order)
    assert slope == pytest.approx(exact, abs=1e-8 * (np.abs(exact).max() + 1 / s.length**order))


@every
def test_decreasing_and_not_negative(s):
    assert (s(Z) >= 0).all()
    assert (np.diff(s(Z)) <= 0).all()
    assert (s.derivative(Z, 1) <= 0).all()


@every
def test_convex_says_so(s):
    z = Z * s.length
    assert (s.derivative(z, 2) >= 0).all() == s.convex


@pytest.mark.parametrize(
    ("s", "is_bound"),
    [
        (s_poly(), False),
        (s_poly(mu=1.0), True),
        (s_log(), True),
        (hinge(), True),
        (sigmoid(), False),
    ],
)
def test_upper_bounds_of_the_indicator(s, is_bound):
    assert (s(Z) >= (Z <= 0)).all() == is_bound


def test_formulas_of_the_paper():
    z = np.array([-2.0, -0.5, 0.0, 0.05, 0.2])
    assert s_poly(0.1, 3)(z) == pytest.approx(np.where(z < 0.1, (-(z - 0.1)) ** 3, 0))
    assert s_log()(z) == pytest.approx(np.log(1 + np.exp(-z)) / np.log(2))
    assert hinge()(z) == pytest.approx(np.maximum(0, 1 - z))
    assert sigmoid(0.2)(z) == pytest.approx(1 / (1 + np.exp(z / 0.2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: s_poly(mu=0), "mu should be a positive number"),
        (lambda: s_poly(p=2.5), "p should be an integer from 1 to 10"),
        (lambda: sigmoid(tau=-1), "tau should be a positive number"),
        (lambda: get_surrogate("square"), "surrogate should be one of"),
    ],
)
def test_bad_constants(make, message):
    with pytest.raises(ValueError, match=message):
        make()
