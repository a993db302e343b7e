from __future__ import annotations

import pytest
from matplotlib import pyplot as plt
from tests.comparison.spies import Spy, Stubborn


@pytest.fixture(autouse=True)
def _fresh():
    Spy.shown, Stubborn.count, Stubborn.fails, Stubborn.error = (), 0, (), ArithmeticError
    yield
    plt.close("all")
