"""The two tiers, and the order of tests.

A test is in the gate if it carries ``@pytest.mark.gate`` (or its module ``pytestmark``). Of a
parametrised test, ``@pytest.mark.gate_cases("a", "b")`` puts the cases whose ids begin so into the
gate, and ``@pytest.mark.quick_cases("a", "b")`` all other cases.
"""

import gc
import os
import re
import sys

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

os.environ.setdefault("MPLBACKEND", "Agg")
# Two tests run at a time: a second OpenMP thread in each waits more than it works, in small boosted
# models a hundred times so. Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled code is kept, whatever the shell says: each worker, and each of some hundred processes,
# would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same examples in every run: a failure can be repeated, and a pass means the same everywhere,
# however busy the machine is.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")

#: Doctests cannot carry a marker: those of these modules fit whole models.
SLOW_DOCTESTS = (
    "src/auucmax/certificates/betting.py",
    "src/auucmax/certificates/certify.py",
    "src/auucmax/certificates/fixed_bets.py",
    "src/auucmax/metrics/gains.py",
    "src/auucmax/present/page.py",
    "src/auucmax/model/",
)
#: Folders whose tests share models, a session or compiled code, which one process makes once.
#: The first two are begun together, and have no compiled code in common.
TOGETHER = (
    "tests/cli/",
    "tests/pairs/",
    "tests/model/",
    "tests/spark/",
    "tests/campaign/",
    "tests/present/",
    "tests/certificates/",
    "tests/estimators/",
    "tests/data/",
)
#: Files whose tests take minutes and share nothing; those of any other file stay together.
APART = ("tests/fuzz/test_commands.py", "tests/fuzz/test_readers.py")
#: What takes long is begun first, so that no process is left with it at the end.
FIRST = (*TOGETHER[:4], "tests/fuzz/", "tests/test_docs_site.py", "tests/statistical/",
         "tests/experiments/", "tests/test_packaging.py", "tests/test_mlflow.py",
         "tests/test_examples.py", *TOGETHER[4:])  # fmt: skip
_GATE_MODULE = re.compile(r"^pytestmark = .*pytest\.mark\.gate\b", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """The inner loop does not import modules that only the gate runs, or that only it doctests."""
    if config.option.markexpr != "not gate" or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_slow = name.startswith(SLOW_DOCTESTS) or (
        name.startswith("tests/") and _GATE_MODULE.search(collection_path.read_text())
    )
    return True if is_slow else None


def _is_slow(item):
    """Whether the gate alone runs a test that does not carry its marker."""
    if item.nodeid.startswith(SLOW_DOCTESTS):
        return True
    case = getattr(getattr(item, "callspec", None), "id", "")
    if (slow := item.get_closest_marker("gate_cases")) is not None:
        return case.startswith(slow.args)
    if (quick := item.get_closest_marker("quick_cases")) is not None:
        return not case.startswith(quick.args)
    return False


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config, items):
    """Choose the tier of each test; properties are in both, in the gate with all their examples.

    Those that have all of them in the inner loop already are not repeated.
    """
    items.sort(key=lambda item: [not item.nodeid.startswith(name) for name in FIRST])
    tier = config.option.markexpr
    properties = [item for item in items if is_hypothesis_test(getattr(item, "obj", None))]
    properties = [item for item in properties if _fewer_examples(item.obj) is not None]
    for item in [*filter(_is_slow, items), *(properties if tier == "gate" else [])]:
        item.add_marker(pytest.mark.gate)
    if tier == "not gate":
        for test in {item.obj for item in properties}:
            test._hypothesis_internal_use_settings = _fewer_examples(test)


def _fewer_examples(test):
    """Settings with a fifth of the examples, but ten of those that have more; None if few do."""
    own = test._hypothesis_internal_use_settings  # a second @settings would be refused
    few = max(10, own.max_examples // 5)
    return settings(own, max_examples=few) if own.max_examples > few else None


def pytest_collection_finish():
    """What is imported by now stays, so the garbage collector need not look at it again."""
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()  # libraries look for what was not freed


@pytest.hookimpl(optionalhook=True)  # there is no such hook without xdist
def pytest_xdist_make_scheduler(config, log):
    """All tests of a file, and of a folder of TOGETHER, go to one worker, in the order they have.

    The examples of a module go where the tests of its folder do.

    By their path: from pytest 9.2 on, xdist 3.8 loses the marks that it has for this.
    """
    from xdist.scheduler import LoadScopeScheduling

    class FilesOnOneWorker(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            mirrored = nodeid.replace("src/auucmax/", "tests/", 1)
            folder = next((name for name in TOGETHER if mirrored.startswith(name)), None)
            return folder or (nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0])

    config.option.loadscopereorder = False  # by the number of tests, which says little
    return FilesOnOneWorker(config, log) if config.getvalue("dist") == "loadscope" else None
