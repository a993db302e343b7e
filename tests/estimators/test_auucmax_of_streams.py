"""AUUC-max of rows that are read batch by batch: the model of the same rows in memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tests.batches_in_memory import ListedRows

from auucmax import AUUCMax, TwoModels, load_hillstrom, make_trial
from auucmax.estimators.scaling import SCALES


@pytest.fixture(scope="module")
def hillstrom():
    return load_hillstrom()


def streamed(trial, n_batches=4):
    edges = np.linspace(0, trial.n_rows, n_batches + 1)[1:-1].astype(int)
    return ListedRows(trial.X, trial.y, trial.treatment, edges, names=list(trial.X.columns))


@pytest.mark.gate
@pytest.mark.parametrize(
    "options",
    [
        {"selection": None},
        {"selection": None, "norm": 0.004},
        {"selection": None, "surrogate": "s_log"},
        {"selection": None, "scale": "column-l2", "norm": 0.5},
        {"selection": None, "scale": "unit-rows", "norm": 1.0},
        {"selection": None, "scale": "none", "norm": 0.01},
        {"selection": None, "weights": "uniform", "solver": "lbfgs"},
        {"selection": "bound"},
        {"selection": "bound", "grid": "paper", "scale": "column-l2"},
    ],
    ids=str,
)
def test_coefficients_equal_those_of_the_rows_in_memory(hillstrom, options):
    memory = AUUCMax(**options).fit(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
    stream = AUUCMax(**options).fit(streamed(hillstrom))
    size = np.abs(memory.coef_).max()
    np.testing.assert_allclose(stream.coef_, memory.coef_, atol=1e-6 * size)
    assert stream.norm_ == pytest.approx(memory.norm_, rel=1e-9)
    assert stream.radius_ == pytest.approx(memory.radius_, rel=1e-6)
    assert stream.checksum_ == memory.checksum_
    np.testing.assert_array_equal(stream.feature_names_in_, memory.feature_names_in_)
    np.testing.assert_allclose(
        stream.predict(hillstrom.X), memory.predict(hillstrom.X), atol=1e-6 * size
    )
    if options["selection"]:
        bounds = [m.selection_path_["paper_bound"] for m in (stream, memory)]
        np.testing.assert_allclose(*bounds, atol=1e-6)


class FewReadings(ListedRows):
    """A solver that digits have left without descent would go on reading."""

    def _total(self, steps, summaries):
        assert self.n_readings < 100
        return super()._total(steps, summaries)


@pytest.mark.gate
@settings(deadline=None, max_examples=40)
@given(
    distances=st.lists(
        st.sampled_from([0.0, 30.0, 900.0, -1e4, 1e5, -1e6, 1e7]), min_size=1, max_size=4
    ),
    dtype=st.sampled_from([np.float64, np.float32]),
    scale=st.sampled_from(SCALES),
    options=st.sampled_from(
        [{"selection": "bound"}, {"selection": None}, {"selection": None, "norm": 0.1}]
    ),
    surrogate=st.sampled_from(["s_poly", "s_log"]),
    order=st.sampled_from("CF"),
)
@pytest.mark.filterwarnings("ignore:the solver should reach")  # of such columns, in memory too
def test_columns_far_from_zero_lose_no_digits(distances, dtype, scale, options, surrogate, order):
    """Ranges are about 1: in float32 there are a few values left of a column around 1e7."""
    trial = make_trial(600, n_features=4, random_state=1)
    X = trial.X.to_numpy(np.float64) / 7
    X[:, : len(distances)] += distances
    X = X.astype(dtype)
    memory = AUUCMax(surrogate, scale=scale, **options)
    memory.fit(X, trial.y, treatment=trial.treatment)
    source = FewReadings(np.asarray(X, order=order), trial.y, trial.treatment, [200, 450])
    stream = AUUCMax(surrogate, scale=scale, **options).fit(source)
    size = np.abs(memory.scaled_coef_).max()
    # Columns that lie far from 0 on the same side are nearly one: rows hardly determine what
    # tells them apart, and rounding, which differs between processors, moves it by up to 5e-6.
    np.testing.assert_allclose(stream.scaled_coef_, memory.scaled_coef_, atol=2e-5 * size)
    assert stream.radius_ == pytest.approx(memory.radius_, rel=1e-6)


def test_warnings_point_at_the_line_that_calls_fit():
    """Of arrays and of streams, which come to them by different ways."""
    trial = make_trial(3000, n_features=4, random_state=1)
    X = trial.X.to_numpy(np.float64) * [1e5, 1, 1, 1]
    model = AUUCMax("s_log", scale="none", selection=None, random_state=0)
    with warnings.catch_warnings(record=True) as of_arrays:
        warnings.simplefilter("always")
        model.fit(X, trial.y, treatment=trial.treatment)
    with warnings.catch_warnings(record=True) as of_streams:
        warnings.simplefilter("always")
        model.fit(ListedRows(X, trial.y, trial.treatment, [999]))
    for found in (of_arrays, of_streams):
        assert {w.filename for w in found} == {__file__}
        assert {str(w.message)[:19] for w in found} == {"the solver should r"}


@pytest.mark.gate
@pytest.mark.parametrize("selection", ["cv", "certificate"])
def test_memory_and_streams_deal_the_same_folds_and_choose_the_same(hillstrom, selection):
    for seed in range(2):
        model = AUUCMax(selection=selection, random_state=seed)
        model.fit(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
        stream = AUUCMax(selection=selection, random_state=seed).fit(streamed(hillstrom))
        assert stream.norm_ == pytest.approx(model.norm_, rel=1e-9)
        assert stream.checksum_ == model.checksum_
        by = "cv" if selection == "cv" else "held_out_auuc"
        paths = [m.selection_path_[by] for m in (stream, model)]
        np.testing.assert_allclose(*paths, atol=2e-6)
        size = np.abs(model.coef_).max()
        np.testing.assert_allclose(stream.coef_, model.coef_, atol=1e-6 * size)


WEIGHED = {
    "auucmax": AUUCMax(random_state=0),
    "one norm": AUUCMax(selection=None, scale="column-l2", norm=0.5),
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", [*WEIGHED])
def test_weights_count_in_a_stream_as_in_memory(name, whole):
    trial = make_trial(1_500, random_state=1)
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, trial.n_rows) if whole else 1 / rng.uniform(0.1, 0.9, trial.n_rows)
    X, y, treatment = np.asarray(trial.X), trial.y, trial.treatment
    memory = clone(WEIGHED[name]).fit(X, y, treatment=treatment, sample_weight=weight)
    stream = clone(WEIGHED[name]).fit(ListedRows(X, y, treatment, [3, 1_000], weight=weight))
    del stream.feature_names_in_
    expected, plain = memory.predict(X), clone(WEIGHED[name]).fit(X, y, treatment=treatment)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(stream.predict(X), expected, rtol=0, atol=1e-6 * scale)
    assert np.abs(plain.predict(X) - expected).max() > 1e-5 * scale


def test_score_of_a_stream(hillstrom):
    rows = streamed(hillstrom)
    model = AUUCMax(selection=None).fit(rows)
    exact = model.score(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
    assert model.score(rows) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, rows, t: m.fit(rows, t.y), "y should be left out"),
        (lambda m, rows, t: TwoModels().fit(rows), "an array or a frame for this model"),
        (
            lambda m, rows, t: m.set_params(selection="certificate").fit(
                ListedRows(t.X, t.y, t.treatment, weight=t.y + 1)
            ),
            "Certificates are for unweighted rows",
        ),
        (
            lambda m, rows, t: m.set_params(surrogate="hinge").fit(rows),
            "should have a second derivative",
        ),
        (
            lambda m, rows, t: m.fit(ListedRows(t.X.assign(recency=np.nan), t.y, t.treatment)),
            "finite numbers",
        ),
    ],
)
def test_what_a_stream_cannot_do(hillstrom, call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call(AUUCMax(selection=None), streamed(hillstrom), hillstrom)


def test_adam_needs_all_rows_in_memory(hillstrom, monkeypatch):
    monkeypatch.setattr("auucmax.estimators.auucmax.SEARCH_BYTES", 2**20)
    with pytest.raises(ValueError, match="rows that do not fit into memory"):
        AUUCMax(solver="adam", random_state=0).fit(streamed(hillstrom))


@pytest.mark.parametrize("selection", [None, "bound", "certificate", "cv"])
def test_how_many_readings_a_fit_takes(selection, monkeypatch):
    """Two where all rows fit into memory; the held-out rows of a certificate are never there."""
    trial = make_trial(3000, n_features=4, random_state=0)
    rows = ListedRows(trial.X.to_numpy(), trial.y, trial.treatment, [1000])
    AUUCMax(selection=selection, random_state=0).fit(rows)
    assert rows.n_readings == (6 if selection == "certificate" else 2)
    monkeypatch.setattr("auucmax.estimators.auucmax.SEARCH_BYTES", 8 * 4 * 1000)
    monkeypatch.setattr("auucmax.estimators.auucmax.RARE_ROWS", 10)
    rows.n_readings = 0
    AUUCMax(selection=selection, random_state=0).fit(rows)
    assert 3 < rows.n_readings <= 20


def spend_of(trial, outcome):
    rng = np.random.default_rng(0)
    spend = trial.y * rng.lognormal(3.0, 1.0, trial.n_rows).round(2)
    return spend if outcome == "money" else spend // 20 if outcome == "count" else 5.0 - spend


@pytest.mark.quick_cases("norm-money")
@pytest.mark.parametrize("outcome", ["count", "money", "shifted"])
@pytest.mark.parametrize(
    "options",
    [{"selection": None, "norm": 0.3}, {}, {"surrogate": "s_log"}],
    ids=["norm", "cv", "s_log"],
)
def test_money_is_learnt_from_a_stream_as_in_memory(outcome, options, monkeypatch):
    """Also where levels come from a sample of the rows."""
    monkeypatch.setattr("auucmax.pairs.losses.SAMPLE_ROWS", 600)
    trial = make_trial(4000, n_features=4, heterogeneity=1.0, base_rate=0.3, random_state=1)
    X, spend = trial.X.to_numpy(np.float64), spend_of(trial, outcome)
    memory = AUUCMax(random_state=0, **options).fit(X, spend, treatment=trial.treatment)
    rows = ListedRows(X, spend, trial.treatment, [0, 1000, 1001, 3500])
    stream = AUUCMax(random_state=0, **options).fit(rows)
    size = np.abs(memory.coef_).max()
    np.testing.assert_allclose(stream.coef_, memory.coef_, atol=1e-5 * size)
    assert stream.norm_ == pytest.approx(memory.norm_, rel=1e-6)
    assert stream.gap_share_ == pytest.approx(memory.gap_share_, rel=1e-9)
    assert (stream.gap_share_ == 1) == (outcome == "count")
    assert stream.checksum_ == memory.checksum_
    # One reading more than of 0/1 outcomes, and one for a sample where they are many.
    assert rows.n_readings <= 14 + 2


@pytest.fixture
def small_search(monkeypatch):
    monkeypatch.setattr("auucmax.estimators.auucmax.SEARCH_ROWS", 8000)
    monkeypatch.setattr("auucmax.estimators.auucmax.RARE_ROWS", 150)


@pytest.mark.quick_cases("bound")
@pytest.mark.parametrize("selection", ["bound", "certificate", "cv"])
def test_a_norm_is_searched_on_a_part_and_fitted_on_all(hillstrom, small_search, selection):
    model = AUUCMax(selection=selection, random_state=0)
    model.fit(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
    assert 7500 < model.search_rows_ < 8500
    assert model.residual_ < 1e-6
    assert model.converged_
    assert (model.selection_path_["norm"] == model.norm_).any()
    if selection != "certificate":
        once = AUUCMax(selection=None, norm=model.norm_)
        once.fit(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
        size = np.abs(once.coef_).max()
        np.testing.assert_allclose(model.coef_, once.coef_, atol=1e-6 * size)
        assert model.radius_ == once.radius_
        assert model.checksum_ == once.checksum_
    rows = streamed(hillstrom)
    stream = AUUCMax(selection=selection, random_state=0).fit(rows)
    assert 7500 < stream.search_rows_ < 8500
    assert stream.residual_ < 1e-6
    assert rows.n_readings <= 14
    if selection == "bound":  # no folds, no halves: the same part, and the same choice
        assert stream.search_rows_ == model.search_rows_
        size = np.abs(model.coef_).max()
        np.testing.assert_allclose(stream.coef_, model.coef_, atol=1e-6 * size)


@pytest.mark.gate
def test_rare_outcomes_are_searched_on_more_rows(hillstrom, small_search, monkeypatch):
    monkeypatch.setattr("auucmax.estimators.auucmax.RARE_ROWS", 10**6)
    model = AUUCMax(selection="bound").fit(streamed(hillstrom))
    assert model.search_rows_ == hillstrom.n_rows


def test_summaries_of_a_certificate_are_as_small_as_the_source_asks():
    trial = make_trial(3000, n_features=4, random_state=0)
    rows = ListedRows(trial.X.to_numpy(), trial.y, trial.treatment, [1000])
    rows.max_bytes = 2**14  # 64 bins
    model = AUUCMax(selection="certificate", grid=[0.5], random_state=0).fit(rows)
    assert model.certificate_.bin_gap > 0
