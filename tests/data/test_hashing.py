import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.hashing import _NEXT, _SCALES, _TENS, content_hashes_slow, hash_ids
from auucmax.data.hashing_kernel import hash_contents


@pytest.mark.parametrize(
    "form",  # each is compiled by itself, from the same lines
    ["rows", *(pytest.param(name, marks=pytest.mark.gate) for name in ("float32", "columns"))],
)
@given(seed=st.integers(0, 1000), n=st.integers(1, 40), d=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_kernel_agrees_with_its_twin(form, seed, n, d):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.3, -0.0, rng.normal(size=(n, d)))
    X *= 10.0 ** rng.integers(-30, 30, size=d)
    X[rng.random((n, d)) < 0.1] = np.nan
    X[rng.random((n, d)) < 0.05] = np.inf
    X[rng.random((n, d)) < 0.05] = 9.9999
    with np.errstate(over="ignore"):
        array = {"rows": X, "float32": X.astype(np.float32), "columns": np.asfortranarray(X)}[form]
    found = np.empty((3, n), dtype=np.uint64)
    hash_contents(array, _TENS, _SCALES, _NEXT, found)
    np.testing.assert_array_equal(found, content_hashes_slow(array))


def test_ids():
    assert list(hash_ids(["b", "a"], 2)) == list(hash_ids(["a", "b"], 2))
    assert list(hash_ids([1, 2], 2)) == list(hash_ids(["1", "2"], 2))
    assert list(hash_ids([1.0, 2.0], 2)) == list(hash_ids([1, 2], 2))
    with pytest.raises(ValueError, match="ids should have no missing values"):
        hash_ids(["a", None], 2)
