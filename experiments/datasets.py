"""The paper's table of data sets, computed from the data."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from auucmax import Trial
from auucmax.data import DataNotFoundError
from auucmax.data.fetch import fetch_criteo, fetch_ihdp, fetch_jobs
from experiments import cu2, page, trials
from experiments.harness import Line, Task
from experiments.models import rounded, start_line

NAME = "datasets"
MAIN = "Hillstrom women"
JOBS = "Jobs, randomised rows"
IHDP = "IHDP, replication 1"
CRITEO = "Criteo-UPLIFT v2.1"
DESCRIPTION = "description"  # in the place of a model

#: The paper's numbers, in the order of its table.
ROWS = {
    "size": "Size",
    "features": "Features",
    "treated_share": "Group T ratio",
    "positive": "Positive class ratio",
    "positive_treated": "Pos. class ratio in group T",
    "positive_control": "Pos. class ratio in group C",
    "uplift": "Average Uplift",
}
PAPER: dict[str, dict[str, str]] = {
    MAIN: dict(
        zip(
            ROWS, ("42693", "22", "0.49905", "0.12883", "0.1514", "0.10617", "0.04523"), strict=True
        )
    ),
    cu2.REAL: dict(
        zip(
            ROWS,
            ("1000000", "12", "0.8502", "0.04897", "0.04944", "0.04631", "0.00313"),
            strict=True,
        )
    ),
}


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
    """One for each data set that is at hand; the Criteo file is left out with the reason."""
    reason = cu2.why_missing()
    found = [name for name in LOADERS if reason is None or name not in (cu2.REAL, CRITEO)]
    if reason is not None:
        print(f"skipped {cu2.REAL} and {CRITEO}: {reason}", file=sys.stderr)
    return [Task(NAME, name, DESCRIPTION, 0) for name in found if not _is_missing(name)]


def _is_missing(name: str) -> bool:
    """Whether a small file is not there (the trials of table-1 are looked for by the command)."""
    if name not in (JOBS, IHDP):
        return False
    try:
        LOADERS[name]()
    except DataNotFoundError as error:
        print(f"skipped {name}: {error}", file=sys.stderr)
        return True
    return False


def parameters(task: Task) -> dict[str, Any]:
    return {"seed": cu2.SEED} if task.trial in (cu2.SYNTHETIC, cu2.REAL) else {}


def run(task: Task) -> Line:
    start = time.perf_counter()
    numbers = describe_trial(LOADERS[task.trial]())
    line = start_line(task, parameters(task)) | rounded(numbers)
    return line | {"fit_seconds": rounded(time.perf_counter() - start)}


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


def render(lines: list[Line]) -> str:
    """The page of the appendix."""
    found = {line["trial"]: line for line in lines}
    ordered = [found[name] for name in LOADERS if name in found]
    parts = [
        "# datasets: the paper's table of data sets, computed\n",
        page.made_by(NAME, lines, "reading and counting"),
        _all(ordered),
        _notes(found),
        *(_beside(name, found) for name in PAPER),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _all(lines: list[Line]) -> str:
    header = [
        "data set", "outcome", "size", "features", "treated share", "positive rate",
        "of the treated", "of the controls", "average uplift", "standard error",
    ]  # fmt: skip
    rows = [
        [
            _label(line),
            line["outcome"],
            f"{line['size']:,}",
            str(line["features"]),
            *(f"{line[name]:.5f}" for name in list(ROWS)[2:]),
            f"{line['uplift_error']:.5f}",
        ]
        for line in lines
    ]
    return page.table(header, rows)


def _label(line: Line) -> str:
    name = str(line["trial"])
    prefix = "social pressure, " if name in trials.SOCIAL_PRESSURE else ""
    return prefix + name + ("" if line["binary"] else " (means, not rates)")


def _notes(found: dict[str, Line]) -> str:
    said = []
    if cu2.SYNTHETIC in found:
        line = found[cu2.SYNTHETIC]
        said.append(
            f'"{cu2.SYNTHETIC}" is made up, with the size, shares and rates of the paper\'s '
            f"CU2-1M: its true average effect is {line['true_uplift']:.5f}."
        )
    if cu2.REAL not in found:
        said.append("The Criteo file was not at hand: CU2-1M is not among the data sets above.")
    if IHDP in found:
        said.append(
            f"Outcomes of IHDP are simulated numbers, and its arms are not a random division; the "
            f"true average effect of its children is {found[IHDP]['true_uplift']:.3f}."
        )
    if any(name in found for name in trials.SOCIAL_PRESSURE):
        said.append(
            "Social pressure was randomised by household: its standard errors, which take rows as "
            "independent, are a little small."
        )
    return " ".join(said) + "\n" if said else ""


def _beside(name: str, found: dict[str, Line]) -> str:
    """The paper's column, the same numbers computed, and whether they agree to its digits."""
    published = PAPER[name]
    shown = [other for other in (name, *_STANDS_FOR.get(name, ())) if other in found]
    if not shown:
        return ""
    header = ["", "the paper", *shown, *([f"agrees, {name}"] if name in found else [])]
    rows = []
    for key, title in ROWS.items():
        digits = len(published[key].partition(".")[2])
        numbers = [f"{found[other][key]:.{digits}f}" for other in shown]
        agrees = ["yes" if numbers[0] == published[key] else "**no**"] if name in found else []
        rows.append([title, published[key], *numbers, *agrees])
    text = _slip(published, found[name]) if name in found else _consistency(published)
    return f"## {name}, beside the paper\n\n{page.table(header, rows)}\n{text}"


#: Data sets shown in the column beside, made to have the published numbers.
_STANDS_FOR = {cu2.REAL: (cu2.SYNTHETIC,)}


def _slip(published: dict[str, str], line: Line) -> str:
    """Whether the paper's treated share is that of the treated, of the controls, or neither."""
    treated, control = line["treated_share"], 1 - line["treated_share"]
    stated = published["treated_share"]
    digits = len(stated.partition(".")[2])
    shares = f"{treated:.{digits}f} of the rows are treated and {control:.{digits}f} are controls"
    rates = [float(published[f"positive{end}"]) for end in ("_treated", "_control")]
    mixed = [share * rates[0] + (1 - share) * rates[1] for share in (treated, float(stated))]
    if f"{treated:.{digits}f}" == stated:
        return f"{shares}, as the paper says.\n"
    if f"{control:.{digits}f}" != stated:
        return f"{shares}; the paper's {stated} is neither.\n"
    return (
        f'{shares}: the paper\'s "Group T ratio" of {stated} is the share of the controls. Its own '
        f"rates say so too: with a treated share of {treated:.{digits}f} they mix to a positive "
        f"rate of {mixed[0]:.5f}, with {stated} to {mixed[1]:.5f}; it prints "
        f"{published['positive']}.\n"
    )


def _consistency(published: dict[str, str]) -> str:
    """Whether the published numbers agree among themselves, where there is no data to ask."""
    share, treated, control = (
        float(published[key]) for key in ("treated_share", "positive_treated", "positive_control")
    )
    mixed, uplift = share * treated + (1 - share) * control, treated - control
    same = (f"{mixed:.5f}", f"{uplift:.5f}") == (published["positive"], published["uplift"])
    return (
        f"The paper's own numbers {'agree' if same else 'do **not** agree'} among themselves: its "
        f"share and rates give a positive rate of {mixed:.5f} and an uplift of {uplift:.5f}.\n"
    )
