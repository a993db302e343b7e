"""Feeds damaged inputs to a reader, each under limits of time and memory, and counts them."""

import faulthandler
import random
import resource
import sys
import time
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.running import limited_time

#: How many inputs each test reads. Together at least LEAST: test_feeding.py holds on to it.
INPUTS = {
    "model files: any damage": 7_800,
    "model files: members": 1_500,
    "model files: values": 1_000,
    "model files: other models": 700,
    "model files: arrays": 700,
    "csv": 300,
    "packed csv": 150,
    "json": 150,
    "parquet": 1_200,
    "arrow": 6_700,
    "duckdb": 60,
}
LEAST = 20_000
MOST_SECONDS = 20  # of computing, for one input; the slowest takes a tenth of a second
MOST_SECONDS_OF_ALL = 3_600  # of any kind, for all inputs of a test, which take a minute
MOST_MEMORY = 2**28  # bytes that the inputs of a test may take beyond what the process has
SEEDS = st.integers(0, 2**48)


def feed(name, make, read, allowed, n_inputs=None):
    """Read ``make(random)`` for INPUTS[name] different seeds; hypothesis prints one that fails.

    ``read`` may return, or raise an error of the type ``allowed`` in one line; nothing else.
    """
    wanted = INPUTS[name] if n_inputs is None else n_inputs
    n_read = n_refused = 0
    start = time.process_time()

    @settings(max_examples=wanted, deadline=None, database=None)
    @given(SEEDS)
    def check(seed):
        nonlocal n_read, n_refused
        content = make(random.Random(seed))
        with limited_time(MOST_SECONDS):
            try:
                read(content)
            except allowed as error:
                check_message(str(error))
                n_refused += 1
        n_read += 1

    # If native code does not come back, neither do signals: the process ends.
    faulthandler.dump_traceback_later(MOST_SECONDS_OF_ALL, exit=True, file=sys.__stderr__)
    try:
        with limited_memory():
            check()
    finally:
        faulthandler.cancel_dump_traceback_later()
    seconds = time.process_time() - start
    print(f"{name}: {n_read:,} inputs, of which {n_refused:,} were refused, in {seconds:.1f} s")
    assert n_read >= wanted, f"{name}: only {n_read:,} inputs were read"
    # Were all refused, or none, the inputs would try only one side of the reader.
    assert 0 < n_refused < n_read
    return n_read


def check_message(text):
    assert text.strip()
    assert "\n" not in text


@contextmanager
def limited_memory(most=MOST_MEMORY):
    """An error if the process has taken more memory than before by that much, at any time.

    What is only asked for does not count: of a size that a damaged file tells, a reader may ask for
    too much, and be refused. The system refuses more than four times the limit in all.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + 4 * most, hard))
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # from now on
    before = memory("VmHWM")
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    taken = memory("VmHWM") - before
    assert taken <= most, f"the inputs took {taken / 2**20:,.0f} MiB of memory"


def memory(field):
    """Bytes of this process: its size, or the most that it has had in memory."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
