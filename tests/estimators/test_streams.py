"""AUUC-max of rows that are read batch by batch: the model of the same rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from tests.batches_in_memory import ListedRows

from auucmax import AUUCMax, load_hillstrom, make_trial
from auucmax.estimators.training_rows import StreamedRows, TrainingRows


@pytest.fixture(scope="module")
def hillstrom():
    return load_hillstrom()


def streamed(trial, n_batches=4):
    edges = np.linspace(0, trial.n_rows, n_batches + 1)[1:-1].astype(int)
    return ListedRows(trial.X, trial.y, trial.treatment, edges, names=list(trial.X.columns))


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
@pytest.mark.filterwarnings("ignore:columns should have similar ranges")
def test_coefficients_equal_those_of_the_rows_in_memory(hillstrom, options):
    memory = AUUCMax(**options).fit(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
    stream = AUUCMax(**options).fit(streamed(hillstrom))
    size = np.abs(memory.coef_).max()
    np.testing.assert_allclose(stream.coef_, memory.coef_, atol=1e-6 * size)
    assert stream.norm_ == pytest.approx(memory.norm_, rel=1e-9)
    assert stream.radius_ == pytest.approx(memory.radius_, rel=1e-6)
    assert stream.training_record_ == memory.training_record_
    np.testing.assert_array_equal(stream.feature_names_in_, memory.feature_names_in_)
    np.testing.assert_allclose(
        stream.predict(hillstrom.X), memory.predict(hillstrom.X), atol=1e-6 * size
    )
    if options["selection"]:
        bounds = [m.selection_path_["paper_bound"] for m in (stream, memory)]
        np.testing.assert_allclose(*bounds, atol=1e-6)


def test_columns_far_from_zero_lose_no_digits():
    trial = make_trial(3000, random_state=1)
    X = trial.X.to_numpy(np.float64).copy()
    X[:, 0] += 1e6
    memory = AUUCMax(selection=None, norm=0.1).fit(X, trial.y, treatment=trial.treatment)
    stream = AUUCMax(selection=None, norm=0.1).fit(ListedRows(X, trial.y, trial.treatment, [999]))
    np.testing.assert_allclose(stream.coef_, memory.coef_, atol=1e-6)


def test_choice_by_folds_of_a_stream(hillstrom):
    rows = streamed(hillstrom)
    one, two = (AUUCMax(random_state=s).fit(rows) for s in (0, 0))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.selection_path_["cv"].notna().all()
    other = AUUCMax(random_state=0).fit(streamed(hillstrom, 7))
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-9)  # other batches, same folds


def test_folds_are_those_rows_and_no_others(hillstrom):
    rows = StreamedRows(streamed(hillstrom))
    counts = np.array([fold[1].class_counts() for fold in rows.folds(0)])
    np.testing.assert_array_equal(counts.sum(axis=0), rows.class_counts())
    for train, test in rows.folds(0):
        together = np.add(train.class_counts(), test.class_counts())
        np.testing.assert_array_equal(together, rows.class_counts())


def test_auuc_of_a_fold_is_that_of_its_rows(hillstrom):
    coef = np.linspace(-1, 1, hillstrom.X.shape[1])
    X = hillstrom.X.to_numpy(np.float64)
    memory = TrainingRows(X, hillstrom.y.astype(float), hillstrom.treatment == 1, None)
    rows = StreamedRows(ListedRows(X, hillstrom.y, hillstrom.treatment, [500]))
    for ranking in ("joint", "separate"):
        expected = memory.auucs([coef, -coef], ranking)
        assert rows.auucs([coef, -coef], ranking) == pytest.approx(expected, abs=1e-5)


def test_certificate_of_a_stream(hillstrom):
    rows = streamed(hillstrom)
    model = AUUCMax(selection="certificate", random_state=0).fit(rows)
    assert model.certificate_.n_candidates == 4
    assert model.certificate_.method == "dkw-bernstein"
    assert model.certificate_.lower_bound > 0
    record = model.training_record_
    assert record.given.n_rows == hillstrom.n_rows
    assert record.learnt.n_rows + record.set_aside.n_rows == hillstrom.n_rows


def test_score_of_a_stream(hillstrom):
    rows = streamed(hillstrom)
    model = AUUCMax(selection=None).fit(rows)
    exact = model.score(hillstrom.X, hillstrom.y, treatment=hillstrom.treatment)
    assert model.score(rows) == pytest.approx(exact, abs=1e-9)


def test_columns_in_another_order_are_refused(hillstrom):
    model = AUUCMax(selection=None).fit(streamed(hillstrom))
    turned = hillstrom.X[hillstrom.X.columns[::-1]]
    rows = ListedRows(turned, hillstrom.y, hillstrom.treatment, names=list(turned.columns))
    with pytest.raises(ValueError, match="feature names"):
        model.score(rows)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, rows, t: m.fit(rows, t.y), "y should be left out"),
        (lambda m, rows, t: m.fit(rows, treatment=t.treatment), "treatment should be left out"),
        (lambda m, rows, t: m.fit(t.X, t.y), "treatment should be given"),
        (lambda m, rows, t: m.fit(t.X, treatment=t.treatment), "y should be given"),
        (lambda m, rows, t: m.set_params(solver="adam").fit(rows), "all rows in memory"),
        (lambda m, rows, t: m.set_params(surrogate="hinge").fit(rows), "should be smooth"),
        (lambda m, rows, t: m.fit(ListedRows(t.X, t.y * 2, t.treatment)), "y should be 0 or 1"),
        (
            lambda m, rows, t: m.fit(ListedRows(t.X.assign(recency=np.nan), t.y, t.treatment)),
            "finite numbers",
        ),
        (
            lambda m, rows, t: m.set_params(selection="cv").fit(
                ListedRows(t.X[:300], t.y[:300], t.treatment[:300])
            ),
            "at least 100 rows",
        ),
    ],
)
def test_what_a_stream_cannot_do_is_said(hillstrom, call, said):
    with pytest.raises((TypeError, ValueError), match=said):
        call(AUUCMax(selection=None), streamed(hillstrom), hillstrom)


def test_a_frame_with_columns_of_such_names_is_a_frame():
    trial = make_trial(2000, random_state=0)
    X = trial.X.rename(columns={"x0": "total", "x1": "feature_names"})
    model = AUUCMax(selection=None).fit(X, trial.y, treatment=trial.treatment)
    assert model.converged_
