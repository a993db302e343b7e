import os

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
# Two tests run at a time: a second OpenMP thread in each waits more than it works, in small boosted
# models a hundred times so. Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: a failure can be repeated, and a pass means the same everywhere.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")


#: What only the gate runs, beside tests that are marked one by one: simulations, damaged files,
#: tables and figures of experiments, pages of the site, networks, which wait for torch, and tests
#: that take seconds each. The doctests of the networks, and the tests of all estimators, stay in
#: the inner loop.
GATE = (
    "tests/benchmarks/test_harness.py::test_certificates_can_be_measured",
    "tests/benchmarks/test_harness.py::test_records_have_the_fields",
    "tests/bounds/test_betting.py::test_exact_probability_of_a_miss",
    "tests/bounds/test_certify.py::test_thresholds_hold_together",
    "tests/bounds/test_certify.py::test_two_models_are_compared",
    "tests/bounds/test_classical.py::test_one_row_moves_the_estimate",
    "tests/bounds/test_progressive.py::test_bounds_are_below_the_truth",
    "tests/bounds/test_progressive.py::test_exact_probability_of_a_miss",
    "tests/data/test_fetch.py::test_social_pressure_as_published",
    "tests/estimators/test_learning_rows.py::test_choice_by_folds_of_a_stream",
    "tests/estimators/test_learning_rows.py::test_columns_far_from_zero",
    "tests/estimators/test_network_files.py",
    "tests/estimators/test_networks.py",
    "tests/experiments/",
    "tests/export/test_onnx_model.py::test_models_that_were_saved_and_loaded",
    "tests/fuzz/",
    "tests/statistical/",
    "tests/test_architecture.py::test_examples_of_the_models_page_run",
    "tests/test_compare.py::test_results_depend_neither_on_processes",
    "tests/test_docs_site.py",
    "tests/trial_model/test_file.py::test_files_are_small[30000]",
)
#: The quick test of each that the inner loop keeps.
KEPT = (
    "tests/estimators/test_networks.py::test_parameter_counts",
    "tests/estimators/test_network_files.py::test_saved_and_loaded[TARNet]",
    "tests/experiments/test_experiments.py::test_the_page_that_is_kept",
    "tests/fuzz/test_feeding.py",
)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(GATE) and not item.nodeid.startswith(KEPT):
            item.add_marker(pytest.mark.gate)


@pytest.hookimpl(optionalhook=True)  # there is no such hook without xdist
def pytest_xdist_make_scheduler(config, log):
    """All tests of tests/spark go to one worker: they share a session, which is slow to start.

    By their path: from pytest 9.2 on, xdist 3.8 loses the marks that it has for this.
    """
    from xdist.scheduler import LoadGroupScheduling

    class SparkOnOneWorker(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return "spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return SparkOnOneWorker(config, log) if config.getvalue("dist") == "loadgroup" else None
