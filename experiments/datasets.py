"""The paper's table of data sets, computed from the data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from auucmax import Trial
from auucmax.data.fetch import fetch_criteo, fetch_ihdp, fetch_jobs
from experiments import cu2, page, trials
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "datasets"
MAIN = "Hillstrom women"
JOBS = "Jobs, randomised rows"
IHDP = "IHDP, replication 1"
CRITEO = "Criteo-UPLIFT v2.1"
DESCRIPTION = "description"  # in the place of a model

#: Rows of the paper's table, and its numbers.
ROWS = {
    "size": "Size",
    "features": "Features",
    "treated_share": "Group T ratio",
    "positive": "Positive class ratio",
    "positive_treated": "Pos. class ratio in group T",
    "positive_control": "Pos. class ratio in group C",
    "uplift": "Average Uplift",
}
_PRINTED = {
    MAIN: "42693 22 0.49905 0.12883 0.1514 0.10617 0.04523",
    cu2.REAL: "1000000 12 0.8502 0.04897 0.04944 0.04631 0.00313",
}
PAPER = {name: dict(zip(ROWS, text.split(), strict=True)) for name, text in _PRINTED.items()}


def load_jobs() -> Trial:
    """The rows of the experiment proper."""
    trial = fetch_jobs(download=False)
    if trial.randomised is None:
        raise ValueError("Jobs should say which of its rows were randomised, got none.")
    return trial.take(np.flatnonzero(trial.randomised))


LOADERS: dict[str, Callable[[], Trial]] = {
    **{
        name: partial(trials.load_trial, name)
        for name in (*trials.HILLSTROM, trials.CONVERSION, *trials.SOCIAL_PRESSURE)
    },
    JOBS: load_jobs,
    IHDP: partial(fetch_ihdp, 1, download=False),
    cu2.SYNTHETIC: partial(cu2.load_trial, cu2.SYNTHETIC),
    cu2.REAL: partial(cu2.load_trial, cu2.REAL),
    CRITEO: partial(fetch_criteo, download=False),
}


def tasks(splits: int | None = None) -> list[Task]:
    return [Task(NAME, name, DESCRIPTION, 0) for name in LOADERS]


def probe(trial: str) -> None:
    """Raises DataNotFoundError if a file is not there; the Criteo file is not read."""
    if trial in (cu2.REAL, CRITEO):
        cu2.probe(cu2.REAL)
    elif trial != cu2.SYNTHETIC:
        LOADERS[trial]()


def parameters(task: Task) -> dict[str, Any]:
    return {"seed": cu2.SEED} if task.trial in (cu2.SYNTHETIC, cu2.REAL) else {}


def run(task: Task) -> Line:
    return timed_line(task, parameters(task), lambda: describe_trial(LOADERS[task.trial]()))


def describe_trial(trial: Trial) -> dict[str, Any]:
    """Size, shares, mean outcomes (rates, of a 0/1 outcome) and the difference of the arms."""
    treated = trial.treated
    arms = trial.y[treated].astype(np.float64), trial.y[~treated].astype(np.float64)
    error = np.sqrt(sum(y.var(ddof=1) / len(y) for y in arms))
    return {
        "outcome": trial.outcome_name,
        "binary": bool(np.isin(trial.y, (0, 1)).all()),
        "size": trial.n_rows,
        "features": trial.n_features,
        "treated_share": float(treated.mean()),
        "positive": float(np.mean(trial.y)),
        "positive_treated": float(arms[0].mean()),
        "positive_control": float(arms[1].mean()),
        "uplift": float(arms[0].mean() - arms[1].mean()),
        "uplift_error": float(error),
        "true_uplift": None if trial.effect is None else float(trial.effect.mean()),
    }


# The page.


def render(lines: list[Line]) -> str:
    found = {line["trial"]: line for line in lines}
    found = {name: found[name] for name in LOADERS if name in found}
    parts = [_all(list(found.values())), _notes(found)]
    for name, others in ((MAIN, [MAIN]), (cu2.REAL, [cu2.REAL, cu2.SYNTHETIC])):
        if shown := [other for other in others if other in found]:
            parts += [f"## {name}, beside the paper\n", _beside(name, shown, found)]
    if MAIN in found:
        parts.append(_slip(found[MAIN]["treated_share"]))
    title = f"{NAME}: the paper's table of data sets, computed"
    return page.written(title, lines, *parts, work="reading and counting")


def _all(lines: list[Line]) -> str:
    header = [
        "data set", "outcome", "size", "features", "treated share", "positive rate",
        "of the treated", "of the controls", "average uplift", "standard error",
    ]  # fmt: skip
    rows = []
    for line in lines:
        prefix = "social pressure, " if line["trial"] in trials.SOCIAL_PRESSURE else ""
        suffix = "" if line["binary"] else " (means, not rates)"
        numbers = [f"{line[name]:.5f}" for name in (*list(ROWS)[2:], "uplift_error")]
        rows.append(
            [f"{prefix}{line['trial']}{suffix}", line["outcome"], f"{line['size']:,}",
             str(line["features"]), *numbers]
        )  # fmt: skip
    return page.table(header, rows)


def _notes(found: dict[str, Line]) -> str:
    said = []
    if cu2.SYNTHETIC in found:
        said.append(
            f'"{cu2.SYNTHETIC}" is simulated, with the size, shares and rates of the paper\'s '
            f"CU2-1M: its true average effect is {found[cu2.SYNTHETIC]['true_uplift']:.5f}."
        )
    if cu2.REAL not in found:
        said.append("The Criteo file was not at hand: CU2-1M is not among the data sets above.")
    if IHDP in found:
        said.append(
            f"Outcomes of IHDP are simulated numbers, and its arms are not randomised; the "
            f"true average effect of its children is {found[IHDP]['true_uplift']:.3f}."
        )
    if any(name in found for name in trials.SOCIAL_PRESSURE):
        said.append(
            "Social pressure was randomised by household: its standard errors, which assume "
            "independent rows, are a little small."
        )
    return " ".join(said) + "\n" if said else ""


def _beside(name: str, shown: list[str], found: dict[str, Line]) -> str:
    """The paper's column, the same numbers computed, and whether they agree to its digits."""
    published = PAPER[name]
    header = ["", "the paper", *shown, *([f"agrees, {name}"] if name in found else [])]
    rows = []
    for key, title in ROWS.items():
        digits = len(published[key].partition(".")[2])
        numbers = [f"{found[other][key]:.{digits}f}" for other in shown]
        agrees = ["yes" if numbers[0] == published[key] else "**no**"] if name in found else []
        rows.append([title, published[key], *numbers, *agrees])
    return page.table(header, rows)


def _slip(treated: float) -> str:
    """The paper's treated share of Hillstrom, beside what its own rates imply."""
    published = {key: float(value) for key, value in PAPER[MAIN].items()}
    stated, rates = published["treated_share"], (
        published["positive_treated"], published["positive_control"]
    )  # fmt: skip
    mixed = [share * rates[0] + (1 - share) * rates[1] for share in (treated, stated)]
    return (
        f"{treated:.5f} of the rows are treated and {1 - treated:.5f} are controls; the paper's "
        f'"Group T ratio" is {stated}. With a treated share of {treated:.5f} its own rates mix to '
        f"a positive rate of {mixed[0]:.5f}, with {stated} to {mixed[1]:.5f}; it prints "
        f"{PAPER[MAIN]['positive']}.\n"
    )
