"""The filter of rows that were learnt from: what it knows, what it refuses, what it cannot tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.fingerprint import COMPILE_ROWS, mix_bits
from auucmax.trial_model.seen import (
    BITS,
    BloomFilter,
    SeenRows,
    content_hashes,
    rounded,
    row_total,
)


def hashes(start, n):
    return mix_bits(np.arange(start, start + n, dtype=np.uint64))


def seen(contents, ids=None, learnt=None, **options):
    learnt = np.ones(len(contents), dtype=bool) if learnt is None else learnt
    options = {"forget": False} | options
    return SeenRows.of({3: contents, 6: contents}, total_of(contents), ids, learnt, **options)


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
    assert "the others are rows that the model learnt from, which are no evidence" in verdict.note
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
        again = SeenRows.from_dict(found.to_dict(), found.arrays())
        assert again.to_dict() == found.to_dict()
        new = hashes(5_000, 300)
        given = None if ids is None else new
        assert judge(again, new, given).note == judge(found, new, given).note
    for change in ({"n_rows": 0}, {"repeats": 2}, {"digits": 4}, {"total": 3}, {"more": 1}):
        with pytest.raises(ValueError, match="as a fit writes them"):
            SeenRows.from_dict(found.to_dict() | change, {})
    with pytest.raises(ValueError, match="as a fit writes them"):
        SeenRows.from_dict(found.to_dict(), {"contents": np.zeros(9)})


def test_contents_are_known_again_after_rounding_and_in_other_types():
    X = np.random.default_rng(0).lognormal(size=(500, 6))
    exact = content_hashes(X, 3)
    assert (content_hashes(X.astype(np.float32), 3) == exact).all()
    short = np.array([[float(f"{value:.5g}") for value in row] for row in X])
    assert (content_hashes(short, 3) == exact).mean() > 0.95
    assert (content_hashes(-X, 3) != exact).all()


def test_totals_know_outcome_and_arm_and_filters_do_not():
    rng = np.random.default_rng(0)
    X, y, treated = rng.random((50, 2)), np.zeros(50), rng.random(50) < 0.5
    total = row_total(X, y, treated)
    assert row_total(X[::-1], y[::-1], treated[::-1]) == total
    assert row_total(X, 1 - y, treated) != total
    assert row_total(X, y, ~treated) != total


def test_compiled_and_plain_hashes_agree():
    X = np.random.default_rng(0).random((COMPILE_ROWS, 2))
    assert (content_hashes(X, 6)[:1000] == content_hashes(X[:1000], 6)).all()


@pytest.mark.parametrize(
    ("number", "digits", "expected"),
    [(123456.0, 3, 123000.0), (0.00123456, 3, 0.00123), (-9.996, 3, -10.0), (0.0, 3, 0.0),
     (1e-40, 3, 0.0), (123456.0, 6, 123456.0), (1.0, 3, 1.0)],
)  # fmt: skip
def test_significant_digits(number, digits, expected):
    assert rounded(np.array([number]), digits)[0] == pytest.approx(expected, rel=1e-6, abs=1e-39)


def test_digits_are_as_few_as_tell_rows_apart():
    coarse, fine = hashes(0, 100)[np.zeros(1_000, dtype=int)], hashes(0, 1_000)
    everyone = np.ones(1_000, dtype=bool)
    assert SeenRows.of({3: coarse, 6: fine}, 0, None, everyone, forget=False).digits == 6
    assert SeenRows.of({3: fine, 6: fine}, 0, None, everyone, forget=False).digits == 3
