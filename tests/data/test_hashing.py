import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.hashing import Checksum


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(2, size=n) * 1.0, rng.random(n) < 0.5


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 200), st.integers(0, 200), st.integers(0, 1000))
def test_parts_add_up_to_the_whole_in_any_order(n, cut, seed):
    table = rows(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    one, other = (Checksum.of(*(own[part] for own in table)) for part in (order[:cut], order[cut:]))
    assert one + other == Checksum.of(*table)


def test_any_change_changes_the_checksum():
    X, y, t = rows(50)
    found = Checksum.of(X, y, t)
    assert found == Checksum.of(pd.DataFrame(X.astype(np.float32)), y, t)
    changed = X.copy()
    changed[0, 0] += 0.001
    assert found.features != Checksum.of(changed, y, t).features
    assert found != Checksum.of(X[1:], y[1:], t[1:])
    for other in (Checksum.of(X, 1 - y, t), Checksum.of(X, y, ~t)):
        assert other != found
        assert other.features == found.features


def test_texts_and_missing_values():
    y, t = np.array([0.0, 1, 1]), np.array([True, False, True])
    frame = pd.DataFrame({"a": ["x", None, "y"], "b": [1.0, np.nan, -0.0]})
    found = Checksum.of(frame, y, t)
    assert found == Checksum.of(frame.assign(b=[1.0, np.nan, 0.0]).iloc[::-1], y[::-1], t[::-1])
    assert found != Checksum.of(frame.assign(a=["x", "y", "y"]), y, t)
