"""Every row is scored by a model that has not seen it, in memory and in pieces alike."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import NAMES, households, trial_table

from auucmax.data import pieces as pieces_module
from auucmax.data.pieces import open_table
from auucmax.encoding.columns import fold_of
from auucmax.estimators import AUUCMax, TwoModels
from auucmax.model import name_columns
from auucmax.model.crossfit import (
    LEAST,
    PiecedRows,
    Recipe,
    TableRows,
    _Spread,
    cross_fit,
    fewest_rows,
    first_chunk,
    number_of_folds,
)
from auucmax.model.judging import ranks_within

KEY = "0123456789abcdef"


class Witness:
    """Remembers the rows that it was fitted on, by a column that no two rows share."""

    def fit(self, X, y, treatment):
        self.seen = set(X[:, 0])
        return self

    def predict(self, X):
        assert not self.seen & set(X[:, 0])
        return X[:, 0]


def table_of(n, random_state=0):
    rng = np.random.default_rng(random_state)
    return pd.DataFrame(
        {
            "unique": rng.permutation(n).astype(float),
            "mail": rng.integers(0, 2, n),
            "visit": rng.integers(0, 2, n),
        }
    )


def rows_of(table, **options):
    options = {"treatment": "mail", "outcome": "visit"} | options
    return TableRows(table, name_columns(table, **options), KEY)


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_no_row_is_judged_by_a_model_that_has_seen_it(n_folds):
    rows = rows_of(table_of(600))
    recipe = Recipe("tm", KEY, 0, 0.0, n_folds)
    found = cross_fit(rows, {"witness": Witness}, recipe, with_chunks=True)
    unique = rows.sample.frame["unique"].to_numpy()
    np.testing.assert_array_equal(found.ranks["witness"], ranks_within(unique, found.fold))
    assert set(found.fold) == set(range(n_folds))
    # Chunks: each row once, in the order of chunks; the first is not scored.
    (_, none, _), *bet_on = found.chunks
    assert none is None
    assert sum(len(y) for y, *_ in found.chunks) == len(rows.y)
    scored = np.concatenate([score for _, score, _ in bet_on])
    assert len(set(scored)) == len(scored)
    assert len(found.chunks) == min(5, n_folds)


def test_models_of_chunks_have_learnt_from_the_chunks_before():
    rows = rows_of(table_of(600))
    recipe = Recipe("tm", KEY, 0, 0.0, 5)
    sizes = []

    class Counted(Witness):
        def fit(self, X, y, treatment):
            sizes.append(len(y))
            return super().fit(X, y, treatment)

    found = cross_fit(rows, {"m": Counted}, recipe, with_chunks=True)
    of_chunk = [len(y) for y, *_ in found.chunks]
    # They come first: the smallest tells how long the rest takes.
    assert sizes[:3] == list(np.cumsum(of_chunk)[: len(of_chunk) - 2])
    # The model of the last chunk is that of the last fold, and is not fitted again.
    assert len(sizes) == 5 + 3


def test_folds_follow_the_id_whatever_the_order():
    table = trial_table(2_000)
    columns = name_columns(table, **NAMES, id="person")
    recipe = Recipe("tm", KEY, 0, 0.3, 5)
    first = TableRows(table, columns, KEY)
    mixed = TableRows(table.sample(frac=1, random_state=1), columns, KEY)
    for deal in (recipe.folds, recipe.held_out):
        one, other = (
            dict(zip(rows.sample.ids, deal(rows.keys), strict=True)) for rows in (first, mixed)
        )
        assert one == other
    sizes = np.bincount(recipe.folds(first.keys))
    assert np.abs(sizes - len(first.y) / 5).max() < 5 * np.sqrt(len(first.y) / 5)
    assert abs(recipe.held_out(first.keys).mean() - 0.3) < 0.05


def test_more_folds_of_few_rows_two_of_very_many_and_too_few():
    table = table_of(400)
    assert number_of_folds(rows_of(table), KEY) == 5
    rare = table.assign(visit=0)
    for arm in (0, 1):
        rare.loc[rare.index[rare["mail"] == arm][:25], "visit"] = 1
    rows = rows_of(rare)
    n_folds = number_of_folds(rows, KEY)
    assert n_folds in (10, 20)
    fold = Recipe("", KEY, 0, 0.0, n_folds).folds(rows.keys)
    assert all(fewest_rows(rows.y, rows.treated, fold != k) >= LEAST for k in range(n_folds))
    with pytest.raises(ValueError, match=r"at least 20 rows with the outcome.*too few rows"):
        number_of_folds(rows_of(table.head(60)), KEY)
    with pytest.raises(ValueError, match=r"at least 20 rows in every part.*too few rows"):
        number_of_folds(rows_of(table.head(30).assign(visit=np.arange(30.0))), KEY)
    many = rows_of(table)
    many.y = np.zeros(1_000_001)
    assert number_of_folds(many, KEY) == 2


def test_the_certificate_starts_where_there_is_enough_to_learn_from():
    rows = rows_of(table_of(300))
    chunk = np.repeat(np.arange(5), 60)
    assert first_chunk(rows, chunk, 5) in (2, 3)
    assert first_chunk(rows_of(table_of(3_000)), np.repeat(np.arange(5), 600), 5) == 1
    assert first_chunk(rows_of(table_of(60)), np.repeat(np.arange(5), 12), 5) == 5


def with_zip(table, n_zips=40):
    """With a column of many levels, of which some visit more often."""
    rng = np.random.default_rng(1)
    place = rng.integers(0, n_zips, len(table))
    visits = np.where(rng.random(len(table)) < (place % 4 == 0) * 0.5, 1, table["visit"])
    return table.assign(zip=[f"z{k}" for k in place], visit=visits)


@pytest.mark.parametrize(("id", "sample_rows"), [(None, 300), ("person", 300), (None, 3_000)])
def test_a_table_in_pieces_gives_the_rows_and_models_of_a_frame(
    tmp_path, monkeypatch, id, sample_rows
):
    """However few of the rows are at hand."""
    monkeypatch.setattr(pieces_module, "SAMPLE_ROWS", sample_rows)
    table = with_zip(trial_table(3_000))
    table.to_csv(tmp_path / "rows.csv", index=False)
    pieces = open_table(tmp_path / "rows.csv", memory=1)
    frame = open_table(tmp_path / "rows.csv")
    features = ["age", "town", "member", "spent", "joined", "zip"]
    columns = name_columns(frame, **NAMES, id=id, features=features)
    small = type(pieces)(**(vars(pieces) | {"piece_rows": 700}))
    one, other = TableRows(frame, columns, KEY), TableRows(small, columns, KEY)
    for name in ("y", "treated", "keys"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.left_out == other.left_out
    assert one.n_given == other.n_given == 3_000
    recipe = Recipe("", KEY, 0, 0.0, 5)

    def make():
        return {"auucmax": AUUCMax(random_state=0, selection=None)}

    readings = []
    original = PiecedRows.batches
    monkeypatch.setattr(PiecedRows, "batches", lambda rows: readings.append(1) or original(rows))
    fitted = [rows.fit(make(), recipe.outside(0)) for rows in (one, other)]
    assert len(other.sampled) < 400 or sample_rows == 3_000
    # What columns hold, what outcomes tell of levels, the features.
    assert len(readings) == (3 if sample_rows < 3_000 else 2)
    terms = fitted[0].encoder.terms_
    assert {"base", "sine", "cosine"} <= {term.kind for term in terms}
    assert fitted[1].encoder.terms_ == terms
    assert fitted[1].encoder.columns_ == fitted[0].encoder.columns_
    scores = [
        rows.scores(own, recipe.inside(0)) for rows, own in zip((one, other), fitted, strict=True)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-9)


def test_levels_are_learnt_from_other_rows_than_those_that_are_judged():
    """Whatever the outcomes of the rows that are kept from a fit, and the row's own in training."""
    table = with_zip(trial_table(4_000))
    columns = name_columns(table, **NAMES, features=["age", "zip"])
    recipe = Recipe("", KEY, 0, 0.0, 5)
    learnt = []

    class Learner:
        def fit(self, X, y, treatment):
            learnt.append(X)

    rows = TableRows(table, columns, KEY)
    first = rows.fit({"learner": Learner()}, recipe.outside(0)).encoder
    arms = np.flatnonzero(table["arm"].isin(["mail", "none"]))
    inside, fold = recipe.inside(0)(rows.keys), fold_of(rows.keys)
    judged = table.assign(visit=table["visit"].to_numpy(copy=True))
    judged.iloc[arms[inside], judged.columns.get_loc("visit")] ^= 1
    again = TableRows(judged, columns, KEY).fit({"learner": Learner()}, recipe.outside(0)).encoder
    assert again.columns_ == first.columns_
    np.testing.assert_array_equal(learnt[0], learnt[1])
    # Outcomes of one fold inside: its own numbers stay, those of others do not.
    one = ~inside & (fold == 3) & (np.arange(len(fold)) % 7 == 0)
    table.iloc[arms[one], table.columns.get_loc("visit")] ^= 1
    TableRows(table, columns, KEY).fit({"learner": Learner()}, recipe.outside(0))
    of_three = fold[~inside] == 3
    assert learnt[0].shape == learnt[2].shape
    np.testing.assert_array_equal(learnt[0][of_three], learnt[2][of_three])
    assert (learnt[0][~of_three] != learnt[2][~of_three]).any()


def test_a_table_that_changes_between_readings_is_refused(tmp_path):
    table = trial_table(1_000)
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    pieces = open_table(path, memory=1)
    rows = TableRows(pieces, name_columns(pieces, **NAMES, features=["age"]), KEY)
    table.iloc[::-1].to_csv(path, index=False)
    with pytest.raises(ValueError, match="same rows"):
        list(rows.rows.batches())


def test_several_models_share_an_encoder():
    table = trial_table(1_500)
    rows = TableRows(table, name_columns(table, **NAMES, id="person"), KEY)
    recipe = Recipe("tm", KEY, 0, 0.0, 2)
    both = cross_fit(rows, {"a": TwoModels, "b": TwoModels}, recipe, with_chunks=False)
    np.testing.assert_array_equal(both.ranks["a"], both.ranks["b"])
    assert both.chunks == []


def test_groups_are_whole_in_memory_and_in_pieces(tmp_path):
    """A group is one unit of folds, chunks and judgement, wherever its rows are."""
    table = households(300).sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "rows.csv", index=False)
    found = [
        TableRows(rows, name_columns(rows, **NAMES, id="person", groups="home"), KEY)
        for rows in (table, open_table(tmp_path / "rows.csv", memory=1))
    ]
    np.testing.assert_array_equal(found[0].keys, found[1].keys)
    rows = found[1]
    codes = rows.judged(np.zeros(len(rows.y))).groups
    home = pd.factorize(table["home"])[0]
    assert len(np.unique(codes)) == len(np.unique(home)) == len(np.unique(codes * 1_000 + home))
    some = rows.treated
    assert rows.judged(np.zeros(some.sum()), some).groups.max() + 1 == table["home"][some].nunique()
    apart = cross_fit(found[0], {"tm": TwoModels}, Recipe("tm", KEY, 0, 0.0, 5), with_chunks=True)
    parts = [set(keys) for keys in apart.keys]
    assert [len(keys) for keys in apart.keys] == [len(chunk[0]) for chunk in apart.chunks]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 300


@pytest.mark.parametrize("edges", [[100], [1, 40, 100]])
def test_deviations_of_batches_are_those_of_all_rows(edges):
    X = np.random.default_rng(0).normal([0.0, 1e6], [1.0, 1e-2], (100, 2))
    parts = [_Spread.of(X[a:b]) for a, b in pairwise([0, *edges])]
    np.testing.assert_allclose(reduce(_Spread.plus, parts).deviation, X.std(axis=0), rtol=1e-9)
