"""docs/paper.md names code and tests that exist, and what it computes itself is right."""

import importlib.util
import re
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from experiments.__main__ import NAMES
from experiments.rival_bounds.cover import proposition2_printed
from scipy.optimize import minimize_scalar

from auucmax import AUUCMax, auuc_score, load_hillstrom
from auucmax.certificates import paper_gap

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text()
MAPPING = PAGE.split("## Slips")[0]
ROWS = [line.strip("| ").split(" | ") for line in MAPPING.splitlines()]
ROWS = [cells for cells in ROWS if len(cells) > 1 and cells[0] != "in the paper"]
QUOTED = re.findall(r"`([^`\n]+)`", PAGE)
TESTS = sorted({token for token in QUOTED if "::" in token})
PACKAGES = "baselines|certificates|experiments|data|estimators|metrics|pairs|selection|solvers"


def resolve(name):
    """auucmax.a.b.C.d, or experiments.a.b.C.d: modules as far as they go, attributes from there."""
    parts, module = name.split("."), "auucmax"
    if parts[0] == "experiments":
        parts, module = parts[1:], parts[0]
    for used, part in enumerate(parts):
        try:
            importlib.import_module(f"{module}.{part}")
        except ModuleNotFoundError:
            return reduce(getattr, parts[used:], importlib.import_module(module))
        module = f"{module}.{part}"
    raise AttributeError(f"{name} is a module; name what is in it")


def test_every_name_resolves():
    names = {token for token in QUOTED if re.fullmatch(rf"({PACKAGES})(\.\w+)+", token)}
    assert len(names) > 50
    for name in sorted(names):
        assert resolve(name) is not None, name
    # Nothing else is quoted: a misspelt package would be.
    others = {token for token in QUOTED if "::" not in token and not token.startswith("python ")}
    files = {token for token in others if token.endswith(".py")}
    assert all((ROOT / file).is_file() for file in files)
    assert others - names - files == {"auucmax", "radius_"}


@pytest.mark.parametrize(
    "name", ["certificates.papers.paper_gap", "certificates.paper.gap", "certificates.paper"]
)
def test_a_wrong_name_does_not_resolve(name):
    with pytest.raises(AttributeError):
        resolve(name)


def test_every_test_exists():
    assert len(TESTS) > 60
    for path in {token.split("::")[0] for token in TESTS}:
        names = re.findall(r"^def (\w+)\(", (ROOT / path).read_text(), re.MULTILINE)
        there = {f"{path}::{name}" for name in names}
        assert {token for token in TESTS if token.startswith(f"{path}::")} <= there


def test_every_command_exists():
    commands = {token for token in QUOTED if token.startswith("python ")}
    assert len(commands) > 4
    for command in commands:
        found = re.fullmatch(r"python -m (experiments[.\w]*) ?([\w-]*)", command)
        assert found, command
        assert importlib.util.find_spec(found[1]), command
        assert not found[2] or found[2] in NAMES, command


def test_every_statement_table_and_figure_has_a_row():
    text = "\n".join(cells[0] for cells in ROWS)
    for kind, last in (("Definition", 3), ("Proposition", 2), ("Theorem", 1), ("Algorithm", 1)):
        assert numbers(kind, text) == set(range(1, last + 1))
    for kind, last in (("Equation", 21), ("Table", 7), ("Figure", 6)):
        assert numbers(kind, text) == set(range(1, last + 1)), kind


def numbers(kind, text):
    """Of "Equations 3, 12", "Equations 14 to 17" and "Tables 4 and 5"."""
    found = set()
    for listed in re.findall(rf"{kind}s? (\d+(?:(?:, | to | and )\d+)*)", text):
        ends = [int(number) for number in re.findall(r"\d+", listed)]
        found |= set(range(ends[0], ends[1] + 1)) if " to " in listed else set(ends)
    return found


def test_a_row_without_a_test_says_so():
    for first, code, *tests in ROWS:
        named = [token for cell in tests for token in TESTS if token in cell]
        assert named or code.startswith(("not yet", "nothing: ")), first


# What the page computes.


def test_the_treated_share_follows_from_the_rates():
    """Table 2 of the paper: all .12883, control .10617, effect .04523; it prints .49905."""
    share = (0.12883 - 0.10617) / 0.04523
    treated = load_hillstrom().treated.mean()
    assert share == pytest.approx(treated, abs=3e-4)
    assert round(treated, 5) == 0.50095
    assert round(1 - treated, 5) == 0.49905


def test_joint_and_separate_are_two_numbers():
    y, score, treatment = [1, 0, 1, 0], [4, 3, 2, 1], [1, 1, 0, 0]
    assert auuc_score(y, score, treatment=treatment) == 0.25
    assert auuc_score(y, score, treatment=treatment, ranking="separate") == 0.0


@pytest.mark.parametrize("size", [0.0, 0.3, 2.0])
def test_the_infimum_over_a_gives_the_printed_constants(size):
    """The bracket of Equations 19 and 20, minimised over a by a solver, is Theorem 1's gap."""
    counts, delta = (300, 1100, 250, 900), 0.1
    log_term, total = np.log(2 / delta), 0.0
    for positive, negative in (counts[:2], counts[2:]):
        complexity = proposition2_printed(positive, norm=size, radius=1, delta=delta)

        def bracket(log_a, c=complexity, m=positive):
            a = np.exp(log_a)
            last = 25 / 16 * (1 / 3 + 1 / a) * log_term / m
            return (1 + a) * c + 5 / 4 * np.sqrt(2 * size**2 * log_term / m) + last

        found = minimize_scalar(bracket, bounds=(-9, 9), method="bounded", options={"xatol": 1e-9})
        best = 5 / 4 * np.sqrt(log_term / (positive * complexity))
        assert np.exp(found.x) == pytest.approx(best, rel=1e-4)
        rate = positive / (positive + negative)
        total += rate * (1 - rate) * found.fun
    assert paper_gap(*counts, norm=size, radius=1, delta=delta) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("scale", ["column-l2", "unit-rows"])
@pytest.mark.parametrize("weights", ["uniform", "lambda"])
def test_the_bound_picks_the_smallest_norm_of_the_papers_grid(scale, weights):
    trial = load_hillstrom()
    model = AUUCMax(selection="bound", grid="paper", scale=scale, weights=weights)
    path = model.fit(trial.X, trial.y, treatment=trial.treatment).selection_path_
    penalty = path["train_auuc"] - path["paper_bound"]
    assert model.norm_ == 0.5
    assert (penalty.diff()[1:] > path["train_auuc"].diff()[1:]).all()
