import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.pair_rows import coded_rows, summary_of, trial

from auucmax.pairs import Bins, PairRows, PairSummary, box_range, code_rows

WIDTH = 1 / 20
quick = settings(deadline=None, max_examples=100)


def test_controls_are_flipped():
    codes = code_rows([1, 0, 1, 0], treatment=["a", "a", "b", "b"], control="b")
    assert codes.tolist() == [0, 1, 3, 2]


@quick
@given(coded_rows(), st.booleans())
def test_moments_are_what_they_say(rows, weighted):
    weight = rows.weight if weighted else None
    codes, n_classes = rows.codes, rows.levels.n_classes
    how = {"weight": weight, "n_classes": n_classes}
    summary = summary_of(rows.score, codes, width=WIDTH, **how)
    w = np.ones(len(rows.score)) if weight is None else weight
    position = rows.score * (1 / WIDTH)
    cell = np.floor(position)
    r = position - cell - 0.5
    for c in range(n_classes):
        for b in {*cell.tolist()}:
            here = (codes == c) & (cell == b)
            k = int(b) - summary.bins.first
            if not w[cell == b].any():
                continue
            for p in range(6):
                expected = (w[here] * r[here] ** p).sum()
                assert summary.moments[c, k, p] == pytest.approx(expected, abs=1e-9)
    assert summary.totals == pytest.approx(np.bincount(codes, w, n_classes), abs=1e-12)


@quick
@given(coded_rows(), st.integers(0, 2**32 - 1))
def test_parts_add_up(rows, seed):
    part = np.random.default_rng(seed).integers(0, 3, len(rows.score))
    codes, how = rows.codes, {"width": WIDTH, "n_classes": rows.levels.n_classes}
    whole = summary_of(rows.score, codes, weight=rows.weight, **how)
    total = None
    for k in {*part.tolist()}:
        own = part == k
        weight = None if rows.weight is None else rows.weight[own]
        piece = summary_of(rows.score[own], codes[own], weight=weight, **how)
        total = piece if total is None else total + piece
    total = total.trimmed()
    assert total.bins == whole.bins
    assert total.moments == pytest.approx(whole.moments, rel=1e-12, abs=1e-12)


def test_parts_with_vector_moments_add_up():
    X, y, treatment, weight, w = trial(500)
    codes = code_rows(y, treatment=treatment)

    def summary(part):
        rows = PairRows(X[part], codes[part], weight[part])
        bins = Bins.covering(*box_range(X[part].min(0), X[part].max(0), w), WIDTH)
        return PairSummary.from_rows(rows, w, bins, vectors=True)

    whole = summary(slice(None))
    plain = summary_of(X @ w, codes, width=WIDTH, weight=weight)
    assert whole.moments == pytest.approx(plain.moments, rel=1e-12, abs=1e-12)
    parts = summary(slice(0, 100)) + summary(slice(100, 500))
    assert parts.vectors == pytest.approx(whole.vectors, rel=1e-12, abs=1e-12)
    assert whole.vectors.shape == (4, whole.bins.size, 6, X.shape[1])
    by_class = np.array([weight[codes == c] @ X[codes == c] for c in range(4)])
    assert whole.vectors[:, :, 0].sum(axis=1) == pytest.approx(by_class)


@quick
@given(coded_rows())
def test_weights_equal_repetition(rows):
    times = np.arange(len(rows.score)) % 3 + 1
    codes, how = rows.codes, {"width": WIDTH, "n_classes": rows.levels.n_classes}
    repeated = summary_of(rows.score.repeat(times), codes.repeat(times), **how)
    weighted = summary_of(rows.score, codes, weight=times.astype(float), **how)
    assert weighted.moments == pytest.approx(repeated.moments, rel=1e-12, abs=1e-12)


def test_box_holds_every_score():
    X, *_, w = trial(1000)
    low, high = box_range(X.min(axis=0), X.max(axis=0), w)
    assert low <= (X @ w).min() <= (X @ w).max() <= high


@pytest.mark.parametrize("y", [[1, 0, 2, 0], [1, 0, 0.5, 0], [-1, 1, 1, -1]])
def test_an_outcome_that_is_not_binary(y):
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        code_rows(y, treatment=[1, 1, 0, 0])


@quick
@given(coded_rows(), st.booleans())
def test_where_all_scores_are_0_no_pass_is_needed(rows, vectors):
    codes, n_classes = rows.codes, rows.levels.n_classes
    weight = np.ones(len(codes)) if rows.weight is None else rows.weight
    x, zero = rows.score[:, None], np.zeros(1)
    bins = Bins.covering(-1.0, 1.0, WIDTH)
    read = PairSummary.from_rows(PairRows(x, codes, weight, n_classes), zero, bins, vectors=vectors)
    sums = np.bincount(codes, weight * rows.score, n_classes)[:, None] if vectors else None
    found = PairSummary.at_zero(WIDTH, np.bincount(codes, weight, n_classes), sums)
    assert found.bins == read.bins
    np.testing.assert_allclose(found.moments, read.moments, atol=1e-12)
    if vectors:
        np.testing.assert_allclose(found.vectors, read.vectors, atol=1e-9)
