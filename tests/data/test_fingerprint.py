import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.fingerprint import COMPILE_ROWS, fingerprint, hash_ids, hash_rows_slow
from auucmax.data.fingerprint_kernel import hash_rows


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), d=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_kernel_agrees_with_its_twin(seed, n, d):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.3, -0.0, rng.normal(size=(n, d)))
    y, t = rng.integers(2, size=n).astype(float), rng.random(n) < 0.5
    for array in (X, X.astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_array_equal(hash_rows(array, y, t), hash_rows_slow(array, y, t))


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


@pytest.mark.parametrize("n", [50, 5000, 100_000])
def test_an_overlap_is_seen(n):
    rng = np.random.default_rng(1)
    X, y, t = rng.random((2 * n, 2)), np.zeros(2 * n), np.arange(2 * n) % 2 == 0
    first = fingerprint(X[:n], y[:n], t[:n])
    for start, share in ((0, 1.0), (n // 2, 0.5), (n, 0.0)):
        other = fingerprint(*(part[start : start + n] for part in (X, y, t)))
        assert other.share_seen(first) == pytest.approx(share, abs=0.15)
        assert other.overlaps(first) == (share > 0)
    few = fingerprint(X[: n // 10], y[: n // 10], t[: n // 10])
    assert few.share_seen(first) == 1.0


def test_repeated_rows_are_no_overlap():
    """A feature with ten values: the same rows come up everywhere, and prove nothing."""
    rng = np.random.default_rng(1)
    X, y, t = rng.integers(10, size=(4000, 1)), np.zeros(4000), np.arange(4000) % 2 == 0
    first, other = (
        fingerprint(X[:2000], y[:2000], t[:2000]),
        fingerprint(X[2000:], y[2000:], t[2000:]),
    )
    assert other.share_seen(first) == 1.0
    assert other.repeats() > 0.9
    assert not other.overlaps(first)
    X = rng.integers(30_000, size=(40_000, 1))
    y, t = np.zeros(40_000), np.arange(40_000) % 2 == 0
    first, other = (fingerprint(X[k::2], y[k::2], t[k::2]) for k in (0, 1))
    assert first.repeats() == pytest.approx(1 - len(np.unique(X[::2])) / 20_000, abs=0.06)


def test_ids():
    assert list(hash_ids(["b", "a"], 2)) == list(hash_ids(["a", "b"], 2))
    assert list(hash_ids([1, 2], 2)) == list(hash_ids(["1", "2"], 2))
    assert list(hash_ids([1.0, 2.0], 2)) == list(hash_ids([1, 2], 2))
    with pytest.raises(ValueError, match="ids should have no missing values"):
        hash_ids(["a", None], 2)


def test_texts_are_texts_in_any_block():
    frame = pd.DataFrame({"zip": ["01", "1", "a", "b"], "n": [1, 2.5, 2, None]}, dtype=object)
    y, treated = np.array([0.0, 1, 0, 1]), np.array([True, False, True, False])
    first, second = (
        fingerprint(frame.iloc[part], y[part], treated[part]) for part in (slice(2), slice(2, 4))
    )
    whole = fingerprint(frame, y, treated)
    assert first + second == whole  # a block of texts that look like numbers
    assert set((first + second).sample) == set(whole.sample)
    assert len(whole.sample) == 4
