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
