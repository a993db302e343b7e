import numpy as np
import pytest

from auucmax.evaluation import Levels
from auucmax.targeting.planning import EVERY_PERCENT, reliable_shares


@pytest.mark.parametrize("binary", [True, False])
def test_reliable_shares_count_the_rows_of_each_cell(binary):
    rng = np.random.default_rng(1)
    t, score = rng.permutation(np.arange(400) % 2), rng.standard_normal(400)
    y = (rng.random(400) < 0.2 + 0.3 * t).astype(float)
    if not binary:
        y = y + 0.5
    order = np.argsort(-score)
    expected = []
    for share in EVERY_PERCENT:
        top = order[: int(share * 400 + 1e-9)]
        cells = [y[top][t[top] == arm] for arm in (0, 1)]
        if binary:
            enough = all(min((c == 1).sum(), (c == 0).sum()) >= 10 for c in cells)
        else:
            enough = all(len(c) >= 30 for c in cells)
        expected.append(enough)
    assert reliable_shares(Levels.of(y, score, treatment=t), EVERY_PERCENT).tolist() == expected
    assert not expected[0]
    assert expected[-1]
