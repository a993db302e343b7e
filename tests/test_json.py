import json

import numpy as np
import pandas as pd

from auucmax._json import plain


def test_plain_takes_what_numpy_and_pandas_give():
    value = {
        1: np.float32(0.5),
        "a": [np.inf, -np.inf, float("nan"), np.int8(3), np.bool_(True)],
        "b": pd.Series([1, 2]),
        "c": pd.Timestamp("2020-01-01"),
    }
    expected = {
        "1": 0.5,
        "a": [None, None, None, 3, True],
        "b": [1, 2],
        "c": "2020-01-01 00:00:00",
    }
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == expected
