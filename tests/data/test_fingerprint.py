import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.fingerprint import COMPILE_ROWS, fingerprint, hash_ids, hash_rows_slow
from auucmax.data.fingerprint_kernel import sum_of_hashes


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), d=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_kernel_agrees_with_its_twin(seed, n, d):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.3, -0.0, rng.normal(size=(n, d)))
    y, t = rng.integers(2, size=n).astype(float), rng.random(n) < 0.5
    for array in (X, X.astype(np.float32), np.asfortranarray(X)):
        expected = int(hash_rows_slow(array, y, t).sum())
        assert int(sum_of_hashes(array, y, t)) % 2**64 == expected


def test_a_set_of_rows_is_known_in_any_order_and_type():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y, t = rng.integers(2, size=300).astype(float), rng.random(300) < 0.5
    known = fingerprint(X, y, t)
    order = rng.permutation(300)
    assert fingerprint(X[order].astype(float), y[order], t[order]) == known
    assert fingerprint(X[:-1], y[:-1], t[:-1]) != known
    assert fingerprint(X, y, ~t) != known
    swapped = X.copy()
    swapped[[0, 1], 0] = X[[1, 0], 0]  # the same columns, other rows
    assert fingerprint(swapped, y, t) != known
    zeros = np.zeros((4, 1)), np.zeros(4), np.arange(4) % 2 == 0
    assert fingerprint(-zeros[0], *zeros[1:]) == fingerprint(*zeros)


def test_large_sets_take_the_compiled_path():
    n = COMPILE_ROWS
    X, y, t = np.arange(n, dtype=float)[:, None], np.arange(n) % 3 == 0, np.arange(n) % 2 == 0
    total = int(hash_rows_slow(X, y.astype(float), t).sum())
    assert fingerprint(X, y.astype(float), t).total == total


def test_ids():
    assert list(hash_ids(["b", "a"], 2)) == list(hash_ids(["a", "b"], 2))
    assert list(hash_ids([1, 2], 2)) == list(hash_ids(["1", "2"], 2))
    with pytest.raises(ValueError, match="ids should have no missing values"):
        hash_ids(["a", None], 2)
