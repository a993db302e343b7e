"""The filter of rows that were learnt from: what it knows, what it refuses, what it cannot tell."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.hashing import (
    COMPILE_ROWS,
    FINEST,
    GRIDS,
    content_hashes,
    mix_bits,
    on_grids,
    row_total,
)
from auucmax.data.seen import BITS, BloomFilter, Kinds, RowSet, SeenRows


def hashes(start, n):
    return mix_bits(np.arange(start, start + n, dtype=np.uint64))


def kinds_of(contents):
    """Of rows whose treatment was drawn one by one."""
    return Kinds.of(contents, np.random.default_rng(0).random(len(contents)) < 0.5)


def seen(contents, ids=None, learnt=None, **options):
    learnt = np.ones(len(contents), dtype=bool) if learnt is None else learnt
    kinds = kinds_of(contents[learnt])
    rows = RowSet(len(contents), total_of(contents), dict.fromkeys(range(len(GRIDS)), kinds))
    return SeenRows.of(rows, None if ids is None else ids[learnt], **options)


def total_of(contents):
    return int(contents.sum(dtype=np.uint64))


def judge(found, contents, ids=None):
    return found.judge(contents, total_of(contents), ids)


def place_by_place(found, value):
    """The definition: the hash is a member if all its bits are set."""
    step, size = int(mix_bits(np.array([value]))[0]) | 1, 8 * len(found.bits)
    for k in range(found.n_probes):
        place = (int(value) + k * step) % 2**64 % size
        if not found.bits[place // 8] >> (place % 8) & 1:
            return False
    return True


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400), st.sampled_from([6, 10, 16]), st.integers(0, 10**6))
def test_what_was_put_in_is_found_and_the_twin_agrees(n, bits, seed):
    own, others = hashes(seed, n), hashes(seed + n, 100)
    found = BloomFilter.of(own, bits)
    assert found.holds(own).all()
    assert found.holds(others).tolist() == [place_by_place(found, v) for v in others]


@pytest.mark.parametrize("bits", [6, 10, 16])
def test_new_hashes_are_found_at_the_rate_that_is_told(bits):
    found = BloomFilter.of(hashes(0, 20_000), bits)
    rate = found.holds(hashes(20_000, 200_000)).mean()
    expected = found.false_rate
    assert abs(rate - expected) < 4 * np.sqrt(expected / 200_000) + 1e-5
    assert expected < 1.1 * 0.6185**bits
    assert len(found.bits) == 20_000 * bits / 8


def test_two_bytes_a_row():
    own = hashes(0, 10_000)
    for ids in (None, hashes(10**6, 10_000)):
        found = seen(own, ids)
        assert sum(array.nbytes for array in found.arrays().values()) == 10_000 * BITS // 8


def test_the_own_rows_in_any_order():
    own = hashes(0, 1_000)
    found = seen(own, learnt=np.arange(1_000) < 700)
    assert judge(found, own[::-1], None).is_own
    assert not judge(found, hashes(1_000, 1_000), None).is_own


def test_new_rows_are_new_and_that_is_sure():
    verdict = judge(seen(hashes(0, 5_000)), hashes(10_000, 3_000))
    assert verdict.new.all()
    assert verdict.is_sure
    assert verdict.note == (
        "All 3,000 rows: none was recognised as one that the model learnt from."
    )


@pytest.mark.parametrize("n_known", [2_000, 200, 100])
def test_learnt_rows_among_new_ones_without_ids_are_refused(n_known):
    found = seen(hashes(0, 5_000))
    mixed = np.concatenate([hashes(0, n_known), hashes(10_000, 2_000 - n_known)])
    with pytest.raises(ValueError, match=r"look like rows that it learnt from.*there are no ids"):
        judge(found, mixed, None)


def test_with_ids_learnt_rows_are_left_out_one_by_one():
    own, ids = hashes(0, 5_000), hashes(10**6, 5_000)
    found = seen(own, ids)
    new = hashes(10_000, 2_000), hashes(2 * 10**6, 2_000)
    mixed = [
        np.concatenate([mine[:300], other]) for mine, other in zip((own, ids), new, strict=True)
    ]
    verdict = judge(found, *mixed)
    assert not verdict.new[:300].any()
    assert verdict.new[300:].mean() > 0.97
    assert "the others are rows that the model learnt from, or of groups" in verdict.note
    alone = judge(found, *new)
    assert alone.new.mean() > 0.97
    assert alone.note.endswith("none was recognised as one that the model learnt from.")
    with pytest.raises(ValueError, match="300 rows that it learnt from"):
        judge(found, own[:300], ids[:300])


def test_the_rows_of_the_fit_under_other_ids_are_refused():
    own = hashes(0, 5_000)
    found = seen(own, hashes(10**6, 5_000))
    with pytest.raises(ValueError, match=r"their ids are new.*write the ids as the file"):
        judge(found, own[:2_000], hashes(3 * 10**6, 2_000))


def test_rows_that_repeat_each_other_are_compared_with_what_chance_explains():
    rng = np.random.default_rng(0)
    kinds = hashes(0, 3_000)
    found = seen(rng.choice(kinds, 5_000))
    assert 0.5 < found.repeats < 0.95
    verdict = judge(found, rng.choice(kinds, 1_000), None)
    assert not verdict.is_sure
    assert "look too much alike" in verdict.note


@pytest.mark.gate
def test_new_trials_are_refused_rarely():
    """Of a population in which a tenth of the rows repeat, new samples pass."""
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(200):
        found = seen(mix_bits(rng.integers(0, 40_000, 4_000).astype(np.uint64)))
        try:
            judge(found, mix_bits(rng.integers(0, 40_000, 1_000).astype(np.uint64)), None)
        except ValueError:
            refused += 1
    assert refused <= 1


def test_a_forgetful_model_cannot_tell():
    found = seen(hashes(0, 1_000), forget=True)
    assert found.arrays() == {}
    verdict = judge(found, hashes(0, 500), None)
    assert verdict.new.all()
    assert not verdict.is_sure
    assert "was told to forget its rows" in verdict.note


def test_json_and_back():
    for ids, forget in ((None, False), (hashes(10**6, 900), False), (None, True)):
        found = seen(hashes(0, 900), ids, forget=forget)
        again = SeenRows.from_dict(found.to_dict(), found.arrays()).with_key(found.key)
        assert again.to_dict() == found.to_dict()
        new = hashes(5_000, 300)
        given = None if ids is None else new
        assert judge(again, new, given).note == judge(found, new, given).note
    wrong = {"n_rows": 0, "repeats": 2, "grid": 4, "total": "g" * 16, "top": "1", "more": 1}
    for change in ({name: value} for name, value in (wrong | {"n_counted": -1}).items()):
        with pytest.raises(ValueError, match="the rows that were seen should"):
            SeenRows.from_dict(found.to_dict() | change, {})
    with pytest.raises(ValueError, match="as a fit writes them"):
        SeenRows.from_dict(found.to_dict(), {"contents": np.zeros(9)})


def test_contents_are_known_again_after_rounding_and_in_other_types():
    X = np.random.default_rng(0).lognormal(size=(500, 6))
    exact = content_hashes(X)[1]
    assert (content_hashes(X.astype(np.float32))[1] == exact).all()
    short = np.array([[float(f"{value:.5g}") for value in row] for row in X])
    assert (content_hashes(short)[1] == exact).mean() > 0.95
    assert (content_hashes(-X)[1] != exact).all()


def test_totals_know_outcome_and_arm_and_filters_do_not():
    rng = np.random.default_rng(0)
    X, y, treated = rng.random((50, 2)), np.zeros(50), rng.random(50) < 0.5
    contents = content_hashes(X)[FINEST]
    total = row_total(contents, y, treated)
    assert row_total(contents[::-1], y[::-1], treated[::-1]) == total
    assert row_total(contents, 1 - y, treated) != total
    assert row_total(contents, y, ~treated) != total


def test_compiled_and_plain_hashes_agree():
    X = np.random.default_rng(0).random((COMPILE_ROWS, 2))
    assert (content_hashes(X)[FINEST][:1000] == content_hashes(X[:1000])[FINEST]).all()


def rounded(number, grid):
    digits, tens = on_grids(np.array([number], dtype=np.float32))[grid]
    return float(digits[0] * 10.0 ** (tens[0] - GRIDS[grid][0] + 1))


@pytest.mark.parametrize(
    ("number", "grid", "expected"),
    [(123456.0, 1, 123000.0), (0.00123456, 1, 0.00123), (-9.996, 1, -10.0), (0.0, 1, 0.0),
     (1e-40, 1, 0.0), (123456.0, 2, 123456.0), (1.0, 1, 1.0), (0.0783, 0, 0.1), (-0.04, 0, 0.0),
     (9.97, 0, 10.0), (99.96, 0, 100.0), (123.45, 0, 123.0)],
)  # fmt: skip
def test_numbers_on_grids(number, grid, expected):
    assert rounded(number, grid) == pytest.approx(expected, rel=1e-6, abs=1e-39)


@settings(deadline=None)
@given(st.floats(1e-30, 1e30), st.sampled_from([0, 1, 2]))
def test_digits_are_those_that_python_prints(number, grid):
    number, (n_digits, decimals) = float(np.float32(number)), GRIDS[grid]
    printed = float(f"{number:.{n_digits - 1}e}")
    last = np.floor(np.log10(printed)) - n_digits + 1
    if last < -decimals:
        printed, last = round(number, decimals), -decimals
    found = rounded(-number, grid)
    # A number half between two may go either way.
    half = abs(number - printed) > 0.499 * 10.0**last
    assert found == pytest.approx(-printed, rel=1e-9, abs=1e-40) or half


def test_a_number_that_is_rounded_to_a_decimal_stays_where_it_is():
    X = np.random.default_rng(0).normal(scale=30, size=(4_000, 1))
    for decimals, least in ((1, 0.98), (2, 0.95), (3, 0.95)):
        same = content_hashes(X.round(decimals))[0] == content_hashes(X)[0]
        assert same.mean() > least


@pytest.mark.parametrize(("repeats", "grid"), [((0, 0, 0), 0), ((1, 0, 0), 1), ((1, 1, 0), 2),
                                               ((1, 1, 1), 2)])  # fmt: skip
def test_the_grid_is_as_coarse_as_tells_rows_apart(repeats, grid):
    coarse, fine = hashes(0, 100)[np.zeros(1_000, dtype=int)], hashes(0, 1_000)
    kinds = {k: kinds_of(coarse if own else fine) for k, own in enumerate(repeats)}
    assert SeenRows.of(RowSet(1_000, 0, kinds)).grid == grid


@pytest.mark.parametrize("n_known", [60, 100, 200])
def test_learnt_rows_under_new_ids_among_new_ones_are_refused(n_known):
    found = seen(hashes(0, 6_000), hashes(10**6, 6_000))
    mixed = np.concatenate([hashes(0, n_known), hashes(2 * 10**6, 2_000 - n_known)])
    with pytest.raises(ValueError, match=r"look like rows that it learnt from .* ids are new"):
        judge(found, mixed, hashes(3 * 10**6, 2_000))


def test_rows_of_a_kind_are_found_together_and_do_not_make_an_overlap():
    """A kind that the filter takes for a learnt one, by chance, may have a tenth of the rows."""
    found = seen(hashes(0, 6_000), hashes(10**6, 6_000))
    others = hashes(2 * 10**6, 2_000)
    by_chance = others[found.contents.holds(others)][0]
    new = np.concatenate([others[:1_800], np.repeat(by_chance, 200)])
    assert not found.overlap(kinds_of(new)).is_more


def test_how_many_learnt_rows_would_not_be_seen_is_told():
    rng = np.random.default_rng(0)
    common = hashes(0, 400)[rng.integers(400, size=600)]  # a tenth of the rows are no individuals
    found = seen(np.concatenate([common, hashes(10**6, 5_400)]))
    limit = found.unseen(2_000)
    assert 0.05 < limit < 0.2
    new = np.concatenate([common[:200], hashes(2 * 10**6, 1_800)])
    assert f"(fewer than {limit:.0%} might not be)" in judge(found, new).note
    for share, is_more in ((0.5 * limit, False), (1.5 * limit, True)):
        n = int(share * 2_000)
        mixed = np.concatenate([new[:-n], hashes(10**6, n)])
        assert found.overlap(kinds_of(mixed)).is_more is is_more


def test_a_set_of_rows_is_known_in_any_order_and_type():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y, t = rng.integers(2, size=300).astype(float), rng.random(300) < 0.5
    known = RowSet.of(X, y, t).own
    order = rng.permutation(300)
    assert RowSet.of(X[order].astype(float), y[order], t[order]).own == known
    assert RowSet.of(X[:-1], y[:-1], t[:-1]).own != known
    assert RowSet.of(X, y, ~t).own != known
    swapped = X.copy()
    swapped[[0, 1], 0] = X[[1, 0], 0]  # the same columns, other rows
    assert RowSet.of(swapped, y, t).own != known
    zeros = np.zeros((4, 1)), np.zeros(4), np.arange(4) % 2 == 0
    assert RowSet.of(-zeros[0], *zeros[1:]).own == RowSet.of(*zeros).own


def same(first, second):
    return first.own == second.own and all(
        np.array_equal(getattr(own, name), getattr(second.kinds[digits], name))
        for digits, own in first.kinds.items()
        for name in ("hashes", "counts", "treated", "top")
    )


@pytest.mark.parametrize("most", [10**6, 150, 30])
def test_parts_of_rows_add_up_to_the_whole(monkeypatch, most):
    """Also where only some kinds are kept."""
    monkeypatch.setattr("auucmax.data.seen.MOST_KINDS", most)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 400, size=(1_000, 1))
    y, t = np.zeros(1_000), rng.random(1_000) < 0.5
    cuts = [slice(0, 1), slice(1, 1), slice(1, 300), slice(300, 1_000)]
    parts = [RowSet.of(X[cut], y[cut], t[cut]) for cut in cuts]
    whole = RowSet.of(X, y, t)
    assert same(parts[0] + parts[1] + parts[2] + parts[3], whole)
    assert same(parts[3] + parts[2] + parts[1] + parts[0], whole)
    kinds = whole.kinds[FINEST]
    assert len(kinds.hashes) <= most
    assert kinds.n_rows == sum(
        int(count) for value, count in zip(*np.unique(X, return_counts=True), strict=True)
        if content_hashes(np.array([[float(value)]]))[FINEST][0] <= kinds.top
    )  # fmt: skip


def test_texts_are_texts_in_any_block():
    frame = pd.DataFrame({"zip": ["01", "1", "a", "b"], "n": [1, 2.5, 2, None]}, dtype=object)
    y, treated = np.array([0.0, 1, 0, 1]), np.array([True, False, True, False])
    first, second = (
        RowSet.of(frame.iloc[part], y[part], treated[part]) for part in (slice(2), slice(2, 4))
    )
    whole = RowSet.of(frame, y, treated)
    assert same(first + second, whole)  # a block of texts that look like numbers
    assert len(whole.kinds[FINEST].hashes) == 4


def test_a_filter_of_some_kinds_still_tells(monkeypatch):
    monkeypatch.setattr("auucmax.data.seen.MOST_KINDS", 2_000)
    found = seen(hashes(0, 20_000))
    assert not found.overlap(kinds_of(hashes(10**6, 20_000))).is_more
    mixed = np.concatenate([hashes(0, 1_000), hashes(10**6, 9_000)])
    overlap = found.overlap(kinds_of(mixed))
    assert overlap.is_more
    assert overlap.share == pytest.approx(0.1, abs=0.04)


def test_copies_of_learnt_rows_say_nothing_of_chance():
    """A model that learnt from each row twice still knows its rows, and new ones."""
    own = hashes(0, 3_000)
    arms = np.random.default_rng(0).random(3_000) < 0.5
    kinds = Kinds.of(np.tile(own, 2), np.tile(arms, 2))
    assert kinds.are_copies
    found = SeenRows.of(RowSet(6_000, 0, dict.fromkeys(range(len(GRIDS)), kinds)))
    assert found.repeats == 0
    assert found.overlap(kinds_of(own[:300])).is_more
    assert not found.overlap(kinds_of(hashes(10**6, 3_000))).is_more


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_kinds_count_rows_and_treated_rows(rows):
    hashes = np.array([kind for kind, _ in rows], dtype=np.uint64)
    treated = np.array([arm for _, arm in rows], dtype=bool)
    found = Kinds.of(hashes, treated)
    expected = np.unique(hashes)
    assert found.hashes.tolist() == expected.tolist()
    assert found.counts.tolist() == [int((hashes == kind).sum()) for kind in expected]
    assert found.treated.tolist() == [int((hashes[treated] == kind).sum()) for kind in expected]
