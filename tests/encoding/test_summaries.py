"""What an encoder learns from batches of rows is what it learns from all of them in memory."""

from collections import Counter
from math import inf, nextafter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.encoding.tables import TOWNS, tables

from auucmax.data.reading import as_kinds
from auucmax.encoding import TableEncoder, summaries
from auucmax.encoding import encoder as encoder_module
from auucmax.encoding.summaries import (
    Bins,
    Counting,
    TextCounts,
    edges_between,
    next_edge,
    three_digits,
)
from auucmax.rows import Batch, Rows

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)
pytestmark = pytest.mark.filterwarnings("ignore:columns should tell rows apart")


@given(st.one_of(FLOATS, st.integers(-2_000, 2_000).map(lambda k: k / 8), st.just(-0.0)))
def test_the_next_edge_is_the_first_number_that_rounds_to_more(value):
    edge = next_edge(value)
    if three_digits(value) == inf:
        return
    assert three_digits(edge) > three_digits(value)
    assert three_digits(nextafter(edge, -inf)) == three_digits(value)


@given(FLOATS, st.integers(0, 10_000), st.booleans())
def test_edges_enclose_what_they_are_between(low, steps, far):
    high = max(low, 1e300) if far else min(low + abs(low) * steps / 1_000, 1.79e308)
    high = max(low, high)
    edges = edges_between(low, high)
    assert edges[0] <= low <= high < edges[-1] or edges[-1] == inf
    assert (np.diff(edges) > 0).all()
    assert 2 <= len(edges) <= summaries.MOST_EDGES + 2


COLUMNS = st.one_of(
    st.lists(FLOATS.filter(lambda x: abs(x) < 1e300), min_size=1, max_size=30),
    st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=30),
    st.lists(st.integers(900, 1_100).map(lambda k: k / 700), min_size=1, max_size=60),
)


@settings(deadline=None)
@given(COLUMNS, st.data())
def test_medians_to_three_digits_are_those_of_all_values(values, data):
    """The number of readings is bounded."""
    cut = data.draw(st.integers(0, len(values)))
    parts = np.array(values[:cut]), np.array(values[cut:])
    edges = Counting.first(lambda name, kind: None, ["x"], 10).task.edges["x"]
    for _ in range(4):
        one, other = (Bins.of(part, edges) for part in parts)
        low, high = (one + other).median
        if three_digits(low) == three_digits(high):
            break
        edges = edges_between(low, high)
    assert three_digits(low) == three_digits(high) == three_digits(float(np.median(values)))


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(2, 8), st.data())
def test_counts_of_few_of_many_texts_lack_no_more_than_they_say(numbers, most, data):
    texts = [f"t{k * k // 4}" for k in numbers]
    total = TextCounts(0, {}, most)
    while texts:
        size = data.draw(st.integers(1, len(texts)))
        part, texts = texts[:size], texts[size:]
        total += TextCounts.of(pd.Series(part, dtype=object), "category", most)
    true = Counter(f"t{k * k // 4}" for k in numbers)
    assert total.n == len(numbers)
    assert len(total.counts) <= most
    assert total.short <= 2 * len(numbers) / most
    for text, n in true.items():
        assert n - total.short <= total.counts.get(text, 0) <= n
    common, fewest = true.most_common(2), max(true.values(), default=0)
    if total.short < min([n for _, n in common], default=0):
        wanted = {t for t, n in true.items() if n >= min(k for _, k in common)}
        assert wanted <= total.frequent(2, 1)
    assert fewest == 0 or total.frequent(1, fewest + total.short + 1) == frozenset()


class FrameRows(Rows):
    """Raw rows in batches of any size, also without rows."""

    def __init__(self, batches, max_bytes=2**20):
        self.frames, self.max_bytes, self.readings = batches, max_bytes, 0
        self.names = tuple(batches[0].columns)

    def batches(self):
        self.readings += 1
        start = 0
        for frame in self.frames:
            keys = np.arange(start, start := start + len(frame), dtype=np.uint64)
            yield Batch(frame, np.zeros(len(frame)), np.zeros(len(frame), dtype=bool), keys)


@st.composite
def batches_of(draw, frame):
    """The rows of a frame in batches, with the types that a reader may give to each batch."""
    ends = sorted(draw(st.lists(st.integers(0, len(frame)), max_size=3)))
    parts = [frame.iloc[a:b] for a, b in zip([0, *ends], [*ends, len(frame)], strict=True)]
    made = []
    for part in parts:
        part = as_kinds(part) if draw(st.booleans()) else part
        for name in part.columns:
            is_text = pd.api.types.infer_dtype(part[name], skipna=True) == "string"
            if is_text and draw(st.booleans()):
                kind = draw(st.sampled_from(["category", "string", "str"]))
                part = part.assign(**{name: part[name].astype(kind)})
        made.append(part)
    return made


def outcome(learn):
    """What was learnt, or that it was refused."""
    try:
        encoder = learn()
    except ValueError:
        return "refused"  # a batch may be of another kind than the whole: messages differ
    return encoder.columns_, encoder.terms_, encoder.dropped_, encoder._many


OPTIONS = st.fixed_dictionaries(
    {"max_levels": st.integers(1, 4), "min_level_rows": st.integers(1, 3)}
)


def check_batches(frame, options, data):
    rows = FrameRows(data.draw(batches_of(frame)))
    found = outcome(lambda: TableEncoder(**options).fit_rows(rows))
    assert found == outcome(lambda: TableEncoder(**options).fit(frame))
    assert rows.readings <= 4


@settings(max_examples=50, deadline=None)
@given(tables(), OPTIONS, st.data())
def test_batches_of_columns_of_all_kinds(frame, options, data):
    check_batches(frame, options, data)


MIXED = {
    "numbers": [1, 2, 2**53 + 3, 2**62, -3.5, 1.0, True, None, np.nan],
    "whole": [1, 2, 3, 2**53 - 1, 2**53 + 3, None],
    "booleans": [True, False, None, np.nan],
    "texts": [*TOWNS, 1, 1.0, True, None],
    "all": ["a", 1, 0.5, False, None, pd.Timestamp("2024-01-01")],
}


@settings(max_examples=50, deadline=None)
@given(st.data(), OPTIONS, st.sampled_from([{}, {"categorical": ["x"]}, {"numeric": ["x"]}]))
def test_batches_of_a_column_that_holds_several_kinds_of_objects(data, options, decided):
    """Batches may look as if they were of one kind: what counts is the whole column."""
    values = st.sampled_from(MIXED[data.draw(st.sampled_from(list(MIXED)))])
    n = data.draw(st.integers(2, 12))
    x = pd.Series(data.draw(st.lists(values, min_size=n, max_size=n)), dtype=object)
    frame = pd.DataFrame({"x": x, "y": np.arange(n) / 7})
    check_batches(frame, options | decided, data)


@pytest.mark.parametrize("most", [40, 10_000])
def test_columns_of_more_texts_than_are_counted_at_a_time(monkeypatch, most):
    """One more reading counts those that may be levels, however they are spelt."""
    monkeypatch.setattr(encoder_module, "MOST_LEVELS", 6)
    rng = np.random.default_rng(0)
    numbers = rng.zipf(1.4, 6_000)
    texts = [f"{k}.0" if rng.random() < 0.1 else f"{k}" for k in numbers]
    towns = rng.choice(["true", "True", "NA", "Oslo"], 6_000, p=[0.4, 0.05, 0.05, 0.5])
    rare = [f"shop {k}" for k in range(6_000)]
    towns = np.where(rng.random(6_000) < 0.5, rare, towns)
    frame = pd.DataFrame({"number": texts, "town": towns, "age": rng.normal(size=6_000)})
    rows = FrameRows([frame[a : a + 700] for a in range(0, 6_000, 700)], 32 * most)
    found = TableEncoder(max_levels=4).fit_rows(rows)
    expected = TableEncoder(max_levels=4).fit(frame)
    assert (found.columns_, found._many) == (expected.columns_, expected._many)
    assert expected.columns_[1].levels == ("Oslo", "True", "true")
    assert len(expected._many) == 1
    assert rows.readings <= 3


def test_medians_take_three_readings():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.lognormal(3, 2, 20_000), "z": rng.normal(size=20_000), "k": range(20_000)}
    )
    rows = FrameRows([frame[:5_000], frame[5_000:]])
    assert TableEncoder().fit_rows(rows).columns_ == TableEncoder().fit(frame).columns_
    assert rows.readings <= 3


def test_infinite_numbers_of_all_batches_are_told():
    batches = [pd.DataFrame({"x": [1.0, inf]}), pd.DataFrame({"x": [-inf, 2.0]})]
    with pytest.raises(ValueError, match="'x' should hold finite numbers, got 2 infinite"):
        TableEncoder().fit_rows(FrameRows(batches))
    with pytest.raises(ValueError, match="the table should have rows, got none"):
        TableEncoder().fit_rows(FrameRows([batches[0][:0]]))


def test_batches_of_texts_and_numbers_are_no_column():
    batches = [pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": ["a", "b"]})]
    days = pd.DataFrame({"x": pd.to_datetime(["2024-01-01"])})
    with pytest.raises(ValueError, match="got values of several kinds, 'category', 'number'"):
        TableEncoder().fit_rows(FrameRows(batches))
    with pytest.raises(ValueError, match="got values of several kinds, 'date', 'number'"):
        TableEncoder().fit_rows(FrameRows([batches[0], days]))
