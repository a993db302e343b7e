"""``auucmax fit``: what it learns from, and what it says of it."""

import pytest
from tests.cli.commands import FIT, numbers, run

pytestmark = pytest.mark.gate


def test_candidates_of_the_command(homes, tmp_path):
    line = f"fit {homes}/trial.csv {FIT} --id person --groups home -o {tmp_path}/m.model"
    found = numbers(f"{line} --candidates 5")["certificate"]
    assert found["n_candidates"] == 5
    one = numbers(f"evaluate {homes}/m.model")["certificate"]
    assert found["gain_lower_bound"] < one["gain_lower_bound"]
    assert "each the best of 5" in run(f"evaluate {tmp_path}/m.model --details").stdout
    assert "--candidates should be a whole number" in run(f"{line} --candidates 0").stderr
