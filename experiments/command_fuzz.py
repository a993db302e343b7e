"""Whole commands on odd tables that parse: ``python -m experiments.command_fuzz --runs 50000``.

A seed makes a table: odd in types, levels, arms, outcomes, ids, groups, names of columns and the
form of its file, and a line of options to check and fit it with, `auto` and all other quick models
among them. What could be fitted is then evaluated, reported, exported, compared, and asked for
lists of people of other odd tables. (Tables and options are drawn by numpy from the seed: a run is
a whole command on a whole table, of which a hypothesis strategy would try few.) Each of these
commands is a run, and a run is right if

* it ends with code 0, 1 or 2, and never by an exception, whatever the table holds;
* with code 2 it says one line; with code 0 or 1 neither its output, nor a page or a list that it
  writes, tells "nan" for a number;
* it takes at most 60 seconds of computing.

``--seed N`` runs the tables of one seed again and shows what was printed. ``--keep`` writes a line
for every 50 seeds, and the same command goes on after the last line.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MOST_SECONDS = 60
RESULT = Path(__file__).parent / "results" / "command-fuzz.txt"
PART = 50  # seeds of a kept line
NOT_A_NUMBER = re.compile(r"(?<![\w])nan(?![\w])", re.IGNORECASE)
WIDE = {"COLUMNS": "1000", "TERM": "dumb"}
#: Texts that have made readers, terminals, spreadsheets or pages stumble somewhere.
TEXTS = (
    "a", "b", "", " ", "0", "00123", "1e5", "NA", "null", "-", "=1+1", "@x", "<b>", "'", '"', "é",
    "\u202e", "日本", "x" * 300, "a,b", "a;b", "a\tb", "True", "12,5", "$ 1,234.00", "31/12/2020",
)  # fmt: skip
NAMES = (
    "age", "x", "a b", "spend", "é", "a,b", 'q"q', "score", "rank", "uplift", "y", "Y", "select",
    "1", "<i>", "日本", " lead", "trail ", "[b]", "x" * 80, "index", "__row", "decile", "arm",
)  # fmt: skip


class HangError(BaseException):
    """No Exception: commands turn those into messages."""


@dataclass
class Found:
    """What came of some runs."""

    commands: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    reached: int = 0  # runs with a fitted model
    fitted: int = 0  # fits that gave one
    slowest: float = 0.0
    seconds: float = 0.0  # of one process
    failures: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return self.commands.total()

    def add(self, other: Found) -> None:
        self.commands += other.commands
        self.codes.update(other.codes)
        self.reached += other.reached
        self.fitted += other.fitted
        self.slowest = max(self.slowest, other.slowest)
        self.seconds += other.seconds
        self.failures += other.failures

    @classmethod
    def read(cls, line: dict[str, Any]) -> Found:
        """From a line of kept results."""
        own = {name: line[name] for name in ("reached", "fitted", "slowest", "seconds", "failures")}
        codes = Counter({int(code): n for code, n in line["codes"].items()})
        return cls(Counter(line["commands"]), codes, **own)


# Odd tables


def odd_table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Features of any kind, some of which say something of the outcome."""
    names = rng.permutation(NAMES)[: rng.integers(1, 7)]
    if rng.random() < 0.95:  # which differ in more than capitals
        names = [name for name in names if name != "Y"]
    columns = {str(name): odd_column(rng, n) for name in names}
    return pd.DataFrame({"signal": rng.standard_normal(n).round(3)} | columns)


def odd_column(rng: np.random.Generator, n: int) -> Any:
    """One column of n values, of a kind drawn at random."""
    kinds = REFUSED if rng.random() < 0.03 else COLUMNS
    kind = kinds[rng.integers(len(kinds))]
    values = kind(rng, n)
    if rng.random() < 0.3:  # missing values, from one to nearly all
        gone = rng.random(n) < rng.choice([0.01, 0.2, 0.95])
        values = pd.Series(values).astype(object).where(~gone, None)
    return values


def _levels(rng: np.random.Generator, n: int) -> Any:
    return rng.choice(rng.permutation(TEXTS)[: rng.integers(1, 8)], n)


def _extremes(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_normal(n) * rng.choice([1e-300, 1e-12, 1e12, 1e90])


def _too_large(rng: np.random.Generator, n: int) -> Any:
    return rng.standard_normal(n) * rng.choice([1e154, 1e300])


def _slips(rng: np.random.Generator, n: int) -> Any:
    """Numbers, but for some texts."""
    slip = str(rng.choice(["?", "-", "unknown", "#N/A", "see note", "12 kg", "nan"]))
    texts = np.array([f"{v:.1f}" for v in rng.lognormal(3, 1, n)], dtype=object)
    texts[rng.random(n) < rng.choice([1 / n, 0.05, 0.3])] = slip
    return texts


def _mixed(rng: np.random.Generator, n: int) -> Any:
    some = [1, 2.5, "text", True, None, Decimal("1.5"), pd.Timestamp("2020-01-01")]
    return pd.Series([some[k] for k in rng.integers(len(some), size=n)], dtype=object)


def _dates(rng: np.random.Generator, n: int) -> Any:
    days = pd.Timestamp("1999-12-31") + pd.to_timedelta(rng.integers(0, 9000, n), unit="D")
    zone = rng.choice([None, "UTC"])
    return pd.Series(days if zone is None else days.tz_localize(zone))


def _written_dates(rng: np.random.Generator, n: int) -> Any:
    form = str(rng.choice(["%d/%m/%Y", "%Y-%m-%d", "%d.%m.%y", "%Y-%m-%dT%H:%M:%S"]))
    return _dates(rng, n).dt.strftime(form)


def _nested(rng: np.random.Generator, n: int) -> Any:
    return pd.Series([{"a": int(k)} if k % 2 else {"a": None} for k in range(n)], dtype=object)


COLUMNS = (
    lambda rng, n: rng.standard_normal(n),
    lambda rng, n: rng.lognormal(3, 2, n).round(2),
    lambda rng, n: rng.integers(0, 5, n),
    lambda rng, n: rng.integers(0, 2, n).astype(bool),
    lambda rng, n: rng.integers(-(2**62), 2**62, n),
    lambda rng, n: np.arange(n),
    lambda rng, n: np.full(n, rng.choice([0.0, 7.5])),
    lambda rng, n: np.where(rng.random(n) < 1 / n, 1.0, 0.0),
    lambda rng, n: [f"person {k}" for k in range(n)],
    lambda rng, n: [f"{v:,.2f}" for v in rng.lognormal(6, 2, n)],
    lambda rng, n: [f"{v:.2f}".replace(".", ",") for v in rng.lognormal(3, 1, n)],
    lambda rng, n: [f"{k:05d}" for k in rng.integers(0, 30, n)],
    lambda rng, n: pd.Series([None] * n, dtype=object),
    lambda rng, n: pd.Categorical(rng.choice(["low", "high"], n), categories=["low", "high", "no"]),
    lambda rng, n: pd.Series([Decimal(int(k)) / 100 for k in rng.integers(0, 9**9, n)]),
    lambda rng, n: pd.to_timedelta(rng.integers(0, 9**9, n), unit="s"),
    lambda rng, n: [f"{v:.1f}%" for v in rng.lognormal(3, 1, n)],
    _levels, _levels, _extremes, _slips, _slips, _dates, _written_dates,
)  # fmt: skip
#: What a fit mostly refuses.
REFUSED = (
    lambda rng, n: rng.choice([0.0, -0.0, np.inf, -np.inf, 1.0], n, p=[0.4, 0.2, 0.01, 0.01, 0.38]),
    _too_large, _mixed, _nested,
)  # fmt: skip


def odd_arms(rng: np.random.Generator, n: int) -> tuple[Any, list[str]]:
    """A treatment column and the options that name its arms, mostly rightly."""
    treated = rng.random(n) < rng.choice([0.5, 0.4, 0.6, 0.02], p=[0.5, 0.24, 0.23, 0.03])
    kinds: tuple[tuple[Any, list[str]], ...] = (
        (treated.astype(int), []),
        (treated, []),
        (treated.astype(float), []),
        (np.where(treated, "mail", "none"), ["--treated", "mail", "--control", "none"]),
        (treated.astype(int) + 1, ["--treated", "2", "--control", "1"]),
        (np.where(treated, rng.choice(["a", "b"], n), "c"), ["--treated", "a", "--control", "c"]),
        (np.where(treated, "1 ", "0"), []),
        (np.where(treated, "mail", "none"), []),
        (pd.Series(treated).where(rng.random(n) > 0.01, None).astype(object), []),
    )
    chances = [0.4, 0.1, 0.1, 0.15, 0.13, 0.05, 0.03, 0.02, 0.02]
    column, options = kinds[rng.choice(len(kinds), p=chances)]
    return column, options


def odd_outcome(rng: np.random.Generator, n: int, signal: Any, arm: Any) -> Any:
    """Mostly 0 and 1, with an effect that goes with the signal."""
    treated = pd.factorize(np.asarray(arm, dtype=object).astype(str))[0] > 0
    chance = 1 / (1 + np.exp(0.5 - np.asarray(signal, dtype=float) * treated))
    if rng.random() < 0.05:
        chance = chance * 0.04
    y = rng.random(n) < chance
    kinds = (
        y.astype(int), y.astype(int), y.astype(int), y, y.astype(float), np.where(y, "yes", "no"),
        y * rng.lognormal(3, 1, n), y * rng.choice([1e249, 1e-249, -5.0]), np.zeros(n),
        pd.Series(y.astype(int)).where(rng.random(n) > 0.02, None).astype(object),
    )  # fmt: skip
    return kinds[
        rng.choice(len(kinds), p=[0.22, 0.22, 0.2, 0.1, 0.1, 0.04, 0.06, 0.02, 0.01, 0.03])
    ]


def odd_trial(rng: np.random.Generator) -> tuple[pd.DataFrame, list[str]]:
    """A table, and the options of ``auucmax fit`` that belong to it."""
    n = int(rng.choice([12, 120, 300, 450, 700], p=[0.02, 0.05, 0.43, 0.3, 0.2]))
    table = odd_table(rng, n)
    arm, options = odd_arms(rng, n)
    table.insert(int(rng.integers(len(table.columns) + 1)), "given", arm)
    table["bought"] = odd_outcome(rng, n, table["signal"], arm)
    options = ["-t", "given", "-y", "bought", *options]
    if rng.random() < 0.5:
        own = pd.Series(rng.permutation(n) + 10)
        kinds = (own, own.astype(str), "=" + own.astype(str), own // 2, own.astype(float))
        table["who"] = kinds[rng.choice(5, p=[0.4, 0.32, 0.14, 0.02, 0.12])]
        options += ["--id", "who"] if rng.random() < 0.8 else ["--ignore", "who"]
    if rng.random() < 0.15:
        table["home"] = odd_groups(rng, n)
        options += ["--groups", "home"]
    column = str(rng.choice(list(table.columns)))
    for line, chance in (
        (["--hold-out", "0.4"], 0.1 if n > 400 else 0.01), (["--forget-rows"], 0.1),
        (["--json"], 0.2), (["--features", "signal"], 0.1), (["--ignore", "no such"], 0.01),
        (["--seed", "7"], 0.1), (["--despite-check"], 0.5), (["--lower-is-better"], 0.15),
        (["--drop-missing-outcomes"], 0.4), (["--candidates", str(rng.choice([0, 1, 3]))], 0.05),
        (["--categorical", column], 0.05), (["--numeric", column], 0.05),
        (["--after", column], 0.1), (["--memory", "0.0001"], 0.02), (["--minutes", "0.01"], 0.02),
        (["--decimal", str(rng.choice([",", "."]))], 0.02),
    ):  # fmt: skip
        options += line if rng.random() < chance else []
    names = list(MODELS)
    return table, [*options, "-m", str(rng.choice(names, p=[MODELS[name] for name in names]))]


#: How often each model is fitted; those that take longer are drawn less often.
MODELS = {
    "tm": 0.58, "cvt": 0.12, "sdr": 0.08, "mom": 0.05, "response": 0.04, "shrunk": 0.03,
    "auucmax": 0.03, "mml": 0.02, "ddr": 0.02, "auto": 0.01, "svm-dp": 0.01, "nonsense": 0.01,
}  # fmt: skip


def odd_groups(rng: np.random.Generator, n: int) -> Any:
    """Households of one row, of some or of many: numbers or texts."""
    size = int(rng.choice([1, 2, 3, 40]))
    homes = rng.permutation(n) // size
    return [f"h{home}" for home in homes] if rng.random() < 0.5 else homes


def write_table(table: pd.DataFrame, folder: Path, name: str, rng: np.random.Generator) -> Path:
    """In one of the formats, or dialects of CSV; what a format cannot hold is written as CSV."""
    kind = rng.choice(
        ["csv", "parquet", "jsonl", "feather", "xlsx"], p=[0.6, 0.2, 0.12, 0.05, 0.03]
    )
    path = folder / f"{name}.{kind}"
    try:
        if kind == "parquet":
            table.to_parquet(path)
            return path
        if kind == "jsonl":
            table.to_json(path, orient="records", lines=True, date_format="iso")
            return path
        if kind == "feather":
            table.reset_index(drop=True).to_feather(path)
            return path
        if kind == "xlsx":
            table.to_excel(path, index=False)
            return path
    except Exception:  # mixed columns, numbers beyond 64 bits, whatever a writer refuses
        path = folder / f"{name}.csv"
    form = {"sep": str(rng.choice([",", ",", ";", "\t"]))}
    form["encoding"] = str(rng.choice(["utf-8", "utf-8-sig"]))
    table.to_csv(path.with_suffix(".csv"), index=False, **form)
    return path.with_suffix(".csv")


def changed(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """People of later: rows of the trial, shuffled, without outcome, sometimes odd in a new way."""
    new = table.drop(columns=["bought", "given"] if rng.random() < 0.7 else [])
    new = new.iloc[rng.permutation(len(new))[: rng.integers(1, len(new) + 1)]].copy()
    if rng.random() < 0.2:
        name = str(rng.choice(list(new.columns)))
        new[name] = pd.Series(odd_column(rng, len(new))).to_numpy()
    if rng.random() < 0.1:
        new = new.drop(columns=str(rng.choice(list(new.columns))))
    return new


# Runs


def lines_of(seed: int, folder: Path) -> Iterator[list[str]]:
    """The commands of a seed; those after the fit only if it wrote a model."""
    rng = np.random.default_rng(seed)
    table, options = odd_trial(rng)
    data, model = str(write_table(table, folder, "trial", rng)), folder / "m.model"
    form = [] if "--memory" not in options else ["--memory", "0.0001"]
    form += options[options.index("--decimal") :][:2] if "--decimal" in options else []
    if rng.random() < 0.1:
        of_fit = ("--hold-out", "--seed", "-m", "--candidates", "--minutes")
        yield ["check", data, *_without(options, *of_fit, flags=FLAGS)]
    if rng.random() < 0.01:
        kept = _without(options, "--hold-out", "-m", "--candidates", "--minutes",
                        flags=("--forget-rows", "--despite-check"))  # fmt: skip
        yield ["compare", data, *kept, "--models", "tm,cvt", "--splits", "2"]
    yield ["fit", data, *options, "-o", str(model)]
    if not model.exists():
        return
    yield ["evaluate", str(model), *_json(rng)]
    yield ["evaluate", str(model), data, *form, *_json(rng)]
    if rng.random() < 0.1:
        yield ["compare", data, "--against", str(model), "--models", "tm,cvt", *form, *_json(rng)]
    # A fit costs as much as ten commands on its model: what it gave is asked more than once.
    for name in ("new", "other"):
        yield _target_line(table, model, folder, name, rng)
    for money in ([], ["--cost", "2", "--value", "10"]):
        yield ["report", str(model), "-o", str(folder / "page.html"), *money, *_json(rng)]
    for to in ("sql", "json", "onnx"):
        dialect = str(rng.choice(["duckdb", "postgres", "bigquery", "snowflake"]))
        file = ["-o", str(folder / "export")] if to == "onnx" or rng.random() < 0.5 else []
        yield ["export", str(model), "--to", to, "--dialect", dialect, *file, *_json(rng)]


def _target_line(
    table: pd.DataFrame, model: Path, folder: Path, name: str, rng: np.random.Generator
) -> list[str]:
    """A list of people of another table, by one of the ways to say how many."""
    new = str(write_table(changed(table, rng), folder, name, rng))
    wishes = ("--share .3", "--share 0", "--share 1", "--share 30", "--budget 50 --cost 1",
              "--cost 1 --value 9")  # fmt: skip
    wish = wishes[rng.integers(6)].split()
    more = ["--new-levels", "other"] if rng.random() < 0.5 else []
    to = str(folder / f"list.{rng.choice(['csv', 'parquet'])}")
    return ["target", str(model), new, *wish, *more, "-o", to, *_json(rng)]


def _json(rng: np.random.Generator) -> list[str]:
    return ["--json"] if rng.random() < 0.3 else []


#: Options of ``fit`` that have no value, and that ``check`` has not.
FLAGS = ("--forget-rows", "--despite-check", "--lower-is-better", "--drop-missing-outcomes")


def _without(options: list[str], *names: str, flags: tuple[str, ...]) -> list[str]:
    """Options but some, which have a value each, and some flags."""
    kept, skip = [], False
    for option in options:
        if skip or option in (*names, *flags):
            skip = not skip and option in names
            continue
        kept.append(option)
    return kept


def run_seed(seed: int, *, show: bool = False) -> Found:
    """All commands of a seed, in this process."""
    found = Found()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for line in lines_of(seed, folder):
            start = time.process_time()
            code, output, wrong = run_line(line, folder)
            taken = time.process_time() - start
            found.slowest, found.seconds = max(found.slowest, taken), found.seconds + taken
            found.commands[line[0]] += 1
            found.codes[code] += 1
            found.reached += (folder / "m.model").exists()
            found.fitted += line[0] == "fit" and (folder / "m.model").exists()
            if wrong:
                found.failures.append(f"seed {seed}: auucmax {' '.join(line)}\n{wrong}")
            if show:
                print(f"$ auucmax {' '.join(line)}\n{output}[{code}]\n{wrong}")
    return found


def run_line(line: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit code, output, and what is wrong with them, if anything."""
    from auucmax.cli import app

    try:
        with limited_time():
            done = _runner().invoke(app, line, env=WIDE)
    except HangError:
        return -1, "", f"took over {MOST_SECONDS} s"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return -1, done.output, "".join(traceback.format_exception(done.exception))
    return done.exit_code, done.output, wrong_of(line, done, folder)


@cache
def _runner() -> Any:
    """What runs a line; it makes the command once, which would take a fifth of every run."""
    from typer import testing

    testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]
    return testing.CliRunner()


def wrong_of(line: list[str], done: Any, folder: Path) -> str:
    """What no user should see."""
    if done.exit_code not in (0, 1, 2):
        return f"exit code {done.exit_code}"
    if done.exit_code == 2:
        errors = [text for text in done.stderr.splitlines() if text.startswith("auucmax:")]
        return "" if len(errors) == 1 else f"{len(errors)} lines of error: {done.stderr[-500:]}"
    for text in shown_by(line, done, folder):
        if hit := NOT_A_NUMBER.search(text):
            return f"tells {text[max(hit.start() - 60, 0) : hit.end() + 20]!r}"
    if "--json" in line and done.exit_code == 0:
        json.loads(done.stdout)
    return ""


def shown_by(line: list[str], done: Any, folder: Path) -> Iterator[str]:
    """What a command tells people: its output, and the page or the list that it wrote."""
    if line[0] != "export":  # SQL may speak of NaN
        # A text of a table is no number.
        yield re.sub(r"'nan'", "", done.stdout)
    if line[0] == "report" and (folder / "page.html").exists():
        page = (folder / "page.html").read_text()
        yield re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    if line[0] == "target":
        for name in ("list.csv", "list.parquet"):
            if (file := folder / name).exists():
                people = pd.read_csv(file) if name.endswith("csv") else pd.read_parquet(file)
                numbers = people.select_dtypes("float").drop(columns="who", errors="ignore")
                if numbers.isna().to_numpy().any():
                    yield f"nan in {name}"
                file.unlink()


@contextmanager
def limited_time() -> Iterator[None]:
    """HangError after 60 seconds of computing, or 600 of anything: other work may slow a run."""

    def stop(*_: Any) -> None:
        raise HangError

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, MOST_SECONDS),
        signal.ITIMER_REAL: (signal.SIGALRM, 10 * MOST_SECONDS),
    }
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, seconds) in timers.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def run_many(runs: int, jobs: int) -> Found:
    """At least so many runs, of seeds from 0 on."""
    found = Found()
    for _, part in parts_of(count(), jobs):
        found.add(part)
        if found.runs >= runs:
            break
    return found


def run_kept(runs: int, jobs: int, deadline: float, lines: Path) -> Found:
    """The same, where parts of the seeds that have a line are not run again."""
    kept = [] if not lines.exists() else list(map(json.loads, lines.read_text().splitlines()))
    found = Found()
    for line in kept:
        found.add(Found.read(line))
    done = {line["part"] for line in kept}
    left = (part for part in count() if part not in done)
    if found.runs >= runs:
        return found
    for number, part in parts_of(left, jobs):
        with lines.open("a") as file:
            head = {"part": number, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
            file.write(json.dumps(head | vars(part)) + "\n")
        found.add(part)
        if found.runs >= runs or time.monotonic() > deadline:
            break
    return found


def parts_of(numbers: Iterable[int], jobs: int) -> Iterator[tuple[int, Found]]:
    """Numbers of parts, and what came of their seeds."""
    with ProcessPoolExecutor(jobs) as pool:
        total = Found()
        for number in numbers:
            part, seeds = Found(), range(number * PART, (number + 1) * PART)
            for one in pool.map(run_seed, seeds, chunksize=5):
                part.add(one)
            total.add(part)
            print(f"{total.runs:,} runs, {len(total.failures)} wrong", file=sys.stderr, flush=True)
            yield number, part


def told(found: Found) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("auucmax", "numpy", "pandas"))
    head = f"python -m experiments.{Path(__file__).stem} {' '.join(sys.argv[1:])}"
    commands = ", ".join(f"{name} {n:,}" for name, n in sorted(found.commands.items()))
    codes = ", ".join(f"{code}: {n:,}" for code, n in sorted(found.codes.items()))
    return "\n".join(
        [
            f"{head}, {datetime.now(UTC):%Y-%m-%d}",
            f"Python {platform.python_version()}, {packages}, {found.seconds / 60:.0f} minutes of "
            f"one process",
            f"{found.runs:,} runs ({commands})",
            f"exit codes {codes}",
            f"{found.reached:,} runs ({found.reached / found.runs:.0%}) with a fitted model; "
            f"{found.fitted:,} of {found.commands['fit']:,} fits gave one",
            f"slowest {found.slowest:.1f} s",
            f"{len(found.failures)} wrong: tracebacks, hangs over {MOST_SECONDS} s, or nan",
            *found.failures[:20],
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, help="show the commands of this seed")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.name}")
    parser.add_argument("--minutes", type=float, default=math.inf, help="with --keep: stop then")
    options = parser.parse_args()
    if options.seed is not None:
        return int(bool(run_seed(options.seed, show=True).failures))
    if options.keep:
        deadline = time.monotonic() + 60 * options.minutes
        found = run_kept(options.runs, options.jobs, deadline, RESULT.with_suffix(".jsonl"))
        RESULT.write_text(told(found) + "\n")
    else:
        found = run_many(options.runs, options.jobs)
    print(told(found))
    return int(bool(found.failures))


if __name__ == "__main__":
    sys.exit(main())
