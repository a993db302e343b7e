"""Columns far from 0 are moved for training; nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from auucmax.estimators.scaling import SCALES, fit_scaling, scaled_radius

COLUMN_SCALES = [scale for scale in SCALES if scale != "unit-rows"]


def columns(*distances, n=50, dtype=np.float64):
    """Ranges of about 1."""
    X = np.random.default_rng(0).random((n, len(distances))) + distances
    return X.astype(dtype)


@pytest.mark.parametrize("scale", SCALES)
def test_rows_around_zero_are_not_copied(scale):
    X = columns(0, -1, 0)
    scaling = fit_scaling(X, scale)
    assert scaling.offset is None
    if scale == "unit-rows":
        np.testing.assert_array_equal(scaling.training_rows(X), scaling.rows(X))
    else:
        assert scaling.training_rows(X) is X


@pytest.mark.parametrize("scale", COLUMN_SCALES)
def test_far_columns_begin_at_zero_and_those_around_it_stay(scale):
    """One that is less far goes along: in products with others its digits count as well."""
    X = columns(0, 1e5, 900, -1e7, dtype=np.float32)
    scaling = fit_scaling(X, scale)
    np.testing.assert_array_equal(scaling.offset, X.min(axis=0) * [0, 1, 1, 1])
    assert fit_scaling(X[:, [0, 2]], scale).offset is None
    moved = scaling.training_rows(X)
    assert moved.dtype == np.float64
    np.testing.assert_array_equal(moved + scaling.offset, X)


@pytest.mark.parametrize("scale", COLUMN_SCALES)
@pytest.mark.parametrize("distance", [1e2, 1e6])
def test_the_radius_is_that_of_the_scale(scale, distance):
    X = columns(0, distance)
    Z = {
        "min-max": (X - X.min(axis=0)) / np.ptp(X, axis=0),
        "column-l2": X / np.linalg.norm(X, axis=0),
        "none": X,
    }[scale]
    expected = np.linalg.norm(Z, axis=1).max()
    assert scaled_radius(X, fit_scaling(X, scale)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "constant", "moved"),
    [
        ("none", 1.0, False),  # a column for the intercept
        ("none", 1e6, True),  # its products would hide those of the others
        ("column-l2", 1e6, False),  # scaled it is as large as the others
        ("min-max", 1e6, False),  # its factor is 0
    ],
)
def test_a_constant_column_is_far_in_terms_of_the_others(scale, constant, moved):
    X = columns(0, constant)
    X[:, 1] = constant
    scaling = fit_scaling(X, scale)
    assert (scaling.offset is not None) == moved
    if moved:
        np.testing.assert_array_equal(scaling.training_rows(X), X * [1, 0])


def test_unit_rows_with_a_far_column_do_not_depend_on_the_order_in_memory():
    X = columns(1e4, *[0] * 8, n=20_000)
    scaling = fit_scaling(X, "unit-rows")
    unit = scaling.rows(X)
    np.testing.assert_array_equal(scaling.offset, [unit[:, 0].min(), *[0] * 8])
    moved = scaling.training_rows(X)
    np.testing.assert_array_equal(moved, unit - scaling.offset)
    np.testing.assert_array_equal(scaling.training_rows(np.asfortranarray(X)), moved)
