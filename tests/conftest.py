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
#: tables and figures of experiments, pages of the site, and networks, which wait for torch. The
#: doctests of the networks, and the tests of all estimators, stay in the inner loop.
GATE = (
    "tests/estimators/test_network_files.py",
    "tests/estimators/test_networks.py",
    "tests/experiments/",
    "tests/fuzz/",
    "tests/statistical/",
    "tests/test_docs_site.py",
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
