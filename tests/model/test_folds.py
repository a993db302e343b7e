"""Every row is scored by a model that was not trained on it."""

import numpy as np
import pandas as pd
import pytest
from tests.model.trial_table import NAMES, households, trial_table

import auucmax
from auucmax._errors import InputError
from auucmax._progress import Work
from auucmax.data.pair import Pair, row_keys
from auucmax.encoding.columns import fold_of
from auucmax.model.folds import (
    LEAST,
    Recipe,
    cross_fit,
    fewest_rows,
    number_of_folds,
    ranks_within,
    train,
)

KEY = "0123456789abcdef"


class Witness:
    """Remembers the rows that it was trained on, by a column that no two rows share."""

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
            "unique": rng.permutation(n) + 0.5,
            "mail": rng.integers(0, 2, n),
            "visit": rng.integers(0, 2, n),
        }
    )


def pair_of(table, **options):
    options = {"treatment": "mail", "outcome": "visit"} | options
    if "features" not in options and "unique" in table:
        options["features"] = ["unique"]
    trial = auucmax.read_trial(table, **options)
    (pair,) = Pair.each(trial, row_keys(trial, KEY))
    return pair


def recipe_of(n_folds=5, **more):
    return Recipe(model="tm", key=KEY, seed=0, n_folds=n_folds, **more)


def crossed(pair, makes, recipe, with_chunks=True):
    return cross_fit(pair, makes, recipe, pair.keys, with_chunks=with_chunks, work=Work(""))


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_no_row_is_scored_by_a_model_that_was_trained_on_it(n_folds):
    pair = pair_of(table_of(600))
    recipe = recipe_of(n_folds)
    found = crossed(pair, {"witness": Witness}, recipe)
    unique = pair.X["unique"].to_numpy()
    np.testing.assert_array_equal(found.ranks["witness"], ranks_within(unique, found.fold))
    assert set(found.fold) == set(range(n_folds))
    chunk = found.fold // recipe.per_chunk
    assert recipe.n_chunks == min(5, n_folds)
    expected = [np.flatnonzero(chunk == k) for k in range(recipe.n_chunks)]
    for part, rows in zip(found.parts, expected, strict=True):
        np.testing.assert_array_equal(part, rows)
    assert np.isnan(found.chunk_score[chunk == 0]).all()
    np.testing.assert_array_equal(found.chunk_score[chunk > 0], unique[chunk > 0])


def test_models_of_chunks_are_trained_on_the_chunks_before():
    pair = pair_of(table_of(600))
    sizes = []

    class Counted(Witness):
        def fit(self, X, y, treatment):
            sizes.append(len(y))
            return super().fit(X, y, treatment)

    found = crossed(pair, {"m": Counted}, recipe_of())
    before = np.cumsum(np.bincount(found.fold))
    assert sizes[:3] == before[:3].tolist()  # the smallest first
    assert len(sizes) == 5 + 3  # the model of the last chunk is that of the last fold


def test_folds_follow_the_id_whatever_the_order():
    table = trial_table(2_000)
    recipe = recipe_of(hold_out=0.3)
    first = pair_of(table, **NAMES, id="person")
    mixed = pair_of(table.sample(frac=1, random_state=1), **NAMES, id="person")
    for assign in (recipe.folds, recipe.held_out):
        one, other = (
            dict(zip(pair.trial.id, assign(pair.keys), strict=True)) for pair in (first, mixed)
        )
        assert one == other
    sizes = np.bincount(recipe.folds(first.keys))
    assert np.abs(sizes - len(first.y) / 5).max() < 5 * np.sqrt(len(first.y) / 5)
    assert abs(recipe.held_out(first.keys).mean() - 0.3) < 0.05


def test_number_of_folds():
    table = table_of(400)
    assert number_of_folds(pair_of(table), KEY) == 5
    rare = table.assign(visit=0)
    for arm in (0, 1):
        rare.loc[rare.index[rare["mail"] == arm][:25], "visit"] = 1
    pair = pair_of(rare)
    n_folds = number_of_folds(pair, KEY)
    assert n_folds in (10, 20)
    fold = recipe_of(n_folds).folds(pair.keys)
    assert all(fewest_rows(pair, fold != k) >= LEAST for k in range(n_folds))
    for few in (table.head(60), table.head(30).assign(visit=np.arange(30.0))):
        with pytest.raises(InputError) as caught:
            number_of_folds(pair_of(few), KEY)
        assert caught.value.parameter == "the trial"


def test_the_certificate_starts_where_there_are_rows_enough_to_train_on():
    few, many = (crossed(pair_of(table_of(n)), {"m": Witness}, recipe_of()) for n in (300, 3_000))
    assert len(few.parts) in (3, 4)
    assert len(many.parts) == 5
    before = np.concatenate(few.parts[:-1])
    assert (few.fold[few.parts[0]].max() + 1) in (2, 3)
    assert len(few.parts[-1]) + len(before) == 300
    assert crossed(pair_of(table_of(60)), {"m": Witness}, recipe_of()).parts == []


def test_means_of_categories_come_from_other_rows_than_those_that_are_scored():
    """Outcomes of rows outside a fit do not move it, nor a row's own outcome its own numbers."""
    table = trial_table(4_000)
    rng = np.random.default_rng(1)
    place = rng.integers(0, 40, len(table))  # some of many levels visit more often
    table["visit"] = np.where(rng.random(len(table)) < (place % 4 == 0) * 0.5, 1, table["visit"])
    table["zip"] = [f"z{k}" for k in place]
    names = NAMES | {"features": ["age", "zip"]}
    seen = []

    class Recorder:
        def fit(self, X, y, treatment):
            seen.append(X)

    pair = pair_of(table, **names)
    inside = recipe_of().folds(pair.keys) == 0
    rows = pair.trial.place
    encoder = train(pair, {"it": Recorder}, ~inside).encoder
    other = table.copy()
    other.iloc[rows[inside], other.columns.get_loc("visit")] ^= 1
    again = train(pair_of(other, **names), {"it": Recorder}, ~inside).encoder
    assert again.columns_ == encoder.columns_
    np.testing.assert_array_equal(seen[0], seen[1])
    # Outcomes of one fold of the encoder: its own numbers stay, those of others do not.
    fold = fold_of(pair.keys)
    one = ~inside & (fold == 3) & (np.arange(len(fold)) % 7 == 0)
    table.iloc[rows[one], table.columns.get_loc("visit")] ^= 1
    train(pair_of(table, **names), {"it": Recorder}, ~inside)
    of_three = fold[~inside] == 3
    np.testing.assert_array_equal(seen[0][of_three], seen[2][of_three])
    assert (seen[0][~of_three] != seen[2][~of_three]).any()


def test_a_group_is_in_one_fold():
    table = households(300).sample(frac=1, random_state=0)
    pair = pair_of(table, **NAMES, id="person", groups="home")
    home = pd.factorize(table["home"])[0]
    assert len(np.unique(pair.groups)) == len(np.unique(pair.groups * 1_000 + home)) == 300
    fold = recipe_of().folds(pair.keys)
    assert (pd.Series(fold).groupby(home).nunique() == 1).all()
