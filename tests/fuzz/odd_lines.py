"""Lines of commands on odd tables, each line as its words: those of a seed tell a story.

A model of two arms is fitted and asked for everything; or one of several arms; or a trial is
planned, assigned, monitored and verified without a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.fuzz.odd_tables import (
    campaign_of,
    changed,
    later,
    odd_arms,
    odd_days,
    odd_groups,
    odd_labels,
    odd_outcome,
    odd_table,
    spoilt,
    write_table,
)

PRINTED = "printed.json"  #: file of the folder with what the last command printed
#: How often each model is fitted; those that take longer are drawn less often.
MODELS = {
    "tm": 0.64, "cvt": 0.15, "response": 0.12, "shrunk": 0.04, "auucmax": 0.03, "auto": 0.01,
    "nonsense": 0.01,
}  # fmt: skip
#: Options of ``fit`` that have no value, and that ``check`` has not.
FLAGS = ("--despite-check", "--lower-is-better", "--drop-missing-outcomes")

Rng = np.random.Generator
Lines = Iterator[list[str]]


def some(rng: Rng, options: dict[str, float]) -> list[str]:
    """The words of each option with its chance."""
    return [
        word for text, chance in options.items() if rng.random() < chance for word in text.split()
    ]


def usually(rng: Rng, usual: str, *odd: Any, chance: float = 0.06) -> str:
    """The usual word, or an odd one."""
    return str(rng.choice([str(one) for one in odd])) if rng.random() < chance else usual


def amount(rng: Rng, *right: float) -> str:
    """Mostly one of these numbers, or else one at which something may break."""
    odd = ("0", "1", "-0.1", "1.2", "nan", "inf", "1e300", "1e-300", "-5", "30", "some")
    return usually(rng, f"{rng.choice(right):g}", *odd, chance=0.1)


def lines_of(seed: int, folder: Path) -> Lines:
    """The commands of a seed; those after a fit only if it wrote a model."""
    rng = np.random.default_rng(seed)
    story = rng.choice(3, p=[0.72, 0.06, 0.22])
    for line in (of_two_arms, of_several_arms, of_a_trial)[story](rng, folder):
        # Some of all commands print JSON.
        yield line + ["--json"] * bool("--json" not in line and rng.random() < 0.25)


# A model of two arms


def of_two_arms(rng: Rng, folder: Path) -> Lines:
    """A fit, and everything that a model can be asked for."""
    table, options = odd_trial(rng)
    if rng.random() < 0.1:
        table["chance"] = odd_chances(rng, len(table))
        options += ["--propensity", "chance"]
    data, model = str(write_table(table, folder, "trial", rng)), folder / "m.model"
    form = options[options.index("--decimal") :][:2] if "--decimal" in options else []
    if rng.random() < 0.1:
        of_fit = ("--hold-out", "--seed", "-m", "--candidates")
        yield ["check", data, *_without(options, *of_fit, flags=FLAGS)]
    if rng.random() < 0.01:
        kept = _without(options, "--hold-out", "-m", "--candidates", flags=("--despite-check",))
        yield ["compare", data, *kept, "--models", "tm,cvt", "--splits", "2"]
    yield ["fit", data, *options, "-o", str(model)]
    if not model.exists():
        return
    yield ["evaluate", str(model)]
    yield ["evaluate", str(model), data, *form]
    if rng.random() < 0.1:
        yield ["compare", data, "--against", str(model), "--models", "tm,cvt", *form]
    # A fit costs as much as ten commands on its model, which is asked more than once.
    for name in ("new", "other"):
        wishes = ("--share .3", "--share 0", "--share 1", "--share 30", "--budget 50 --cost 1",
                  "--cost 1 --value 9")  # fmt: skip
        wish = str(rng.choice(wishes)).split()
        yield _target_line(changed(table, rng), model, folder, name, wish, rng)
    for money in ([], ["--cost", "2", "--value", "10"]):
        yield ["report", str(model), "-o", str(folder / "page.html"), *money]
    for to in ("sql", "json", "onnx"):
        dialect = str(rng.choice(["duckdb", "postgres", "bigquery", "snowflake"]))
        file = ["-o", str(folder / "export")] if to == "onnx" or rng.random() < 0.5 else []
        yield ["export", str(model), "--to", to, "--dialect", dialect, *file]
    if rng.random() < 0.4:
        yield from after_a_model(table, options, model, rng, folder)


def odd_trial(rng: Rng) -> tuple[pd.DataFrame, list[str]]:
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
    for name, chance in (("--categorical", 0.05), ("--numeric", 0.05), ("--after", 0.1)):
        options += [name, column] if rng.random() < chance else []
    options += some(
        rng,
        {"--hold-out 0.4": 0.1 if n > 400 else 0.01, "--json": 0.2, "--features signal": 0.1,
         "--ignore missing": 0.01, "--seed 7": 0.1, "--despite-check": 0.5,
         "--lower-is-better": 0.15, "--drop-missing-outcomes": 0.4, "--candidates 0": 0.02,
         "--candidates 3": 0.04, "--decimal ,": 0.01, "--decimal .": 0.01},
    )  # fmt: skip
    return table, [*options, "-m", str(rng.choice(list(MODELS), p=list(MODELS.values())))]


def odd_chances(rng: Rng, n: int) -> Any:
    """Chances of treatment of each row: rightly written, or not."""
    chance = rng.choice([0.3, 0.5, 0.7], n)
    odd = np.where(rng.random(n) < 0.02, rng.choice([0.0, 1.0, -0.1, 1.4, np.nan]), chance)
    kinds = (chance, np.full(n, 0.5), odd, 100 * chance, rng.uniform(0.2, 0.8, n),
             pd.Series(chance).astype(str).str.replace(".", ",").to_numpy())  # fmt: skip
    return kinds[rng.choice(len(kinds), p=[0.3, 0.3, 0.15, 0.05, 0.15, 0.05])]


def _target_line(
    people: pd.DataFrame, model: Path, folder: Path, name: str, wish: list[str], rng: Rng
) -> list[str]:
    """A list of people of another table."""
    more = some(rng, {"--new-levels other": 0.5})
    if rng.random() < 0.1:  # people who are not to be treated: of the list, of others, of nobody
        ids = people[["who"]].iloc[: rng.integers(len(people) + 1)] if "who" in people else people
        if "who" in people and rng.random() < 0.3:
            ids = pd.concat([ids, ids.astype(str), pd.DataFrame({"who": ["nobody", None]})])
        ids = ids.astype(str) if ids.empty else ids
        more += ["--exclude", str(write_table(ids, folder, "unwanted", rng))]
    new = str(write_table(people, folder, name, rng))
    to = str(folder / f"list.{rng.choice(['csv', 'parquet'])}")
    return ["target", str(model), new, *wish, *more, "-o", to]


def after_a_model(
    table: pd.DataFrame, options: list[str], model: Path, rng: Rng, folder: Path
) -> Lines:
    """The next trial, and the campaign, of people whom a model chooses."""
    new = campaign_of(later(table, rng), _arms(table, options), rng)
    new["day"] = odd_days(rng, len(new))
    if "who" not in new:
        new["who"] = np.arange(len(new))
    data, own = str(write_table(new, folder, "campaign", rng)), ["--model", str(model)]
    yield ["plan", *own, *plan_options(rng, needs=False)]
    listed, state = str(folder / "assigned.csv"), str(folder / "by-model.state")
    ids = usually(rng, "who", "signal", "given")
    top = ["--share", amount(rng, 0.3, 0.5), "--explore", amount(rng, 0.1, 0.3)]
    yield ["assign", data, *own, "--id", ids, "--key", "k", *top, "-o", listed]
    who, came = ["--chosen", "top", "--propensity", "chance"], data
    if rng.random() < 0.5:
        who = ["--list", listed, "--id", ids]
        bare = new[[name for name in ("who", "bought", "signal") if name in new]]
        came = str(write_table(bare, folder, "outcomes", rng))
    yield ["verify", came, *who, *own, "--json"]
    page = ["report", str(model), "-o", str(folder / "page.html")]
    yield [*page, "--campaign", str(folder / PRINTED)]
    yield ["verify", came, *who, *own]
    look = ["--date", "day", "--as-of", "2026-03-01", "--state", state]
    yield ["monitor", str(model), data, *look]
    yield ["monitor", str(model), str(write_table(spoilt(new, rng), folder, "next", rng)), *look]


# A model of several arms


def of_several_arms(rng: Rng, folder: Path) -> Lines:
    """A fit against a control, and who should get which arm."""
    n = int(rng.choice([30, 300, 450, 600], p=[0.05, 0.35, 0.3, 0.3]))
    table = odd_table(rng, n)
    table["given"], labels = odd_labels(rng, n)
    table["bought"] = odd_outcome(rng, n, table["signal"], table["given"])
    options = ["-t", "given", "-y", "bought", "--control", labels[0], "-m", "tm"]
    for name, column, option, chance in (
        ("who", rng.permutation(n) + 10, "--id", 0.5),
        ("home", odd_groups(rng, n), "--groups", 0.1),
        ("chance", odd_chances(rng, n), "--propensity", 0.05),
    ):
        if rng.random() < chance:
            table[name] = column
            options += [option, name]
    options += ["--cost", _by_arm(rng, labels)] if rng.random() < 0.2 else []
    options += some(
        rng,
        {f"--budget {amount(rng, 0.1, 0.5, 1)}": 0.1, "--hold-out 0.4": 0.02,
         "--despite-check": 0.7, "--lower-is-better": 0.1, "--drop-missing-outcomes": 0.4,
         "--features signal": 0.1, "--candidates 3": 0.05},
    )  # fmt: skip
    data, model = str(write_table(table, folder, "trial", rng)), folder / "m.model"
    yield ["fit", data, *options, "-o", str(model)]
    if not model.exists():
        return
    yield ["evaluate", str(model)]
    if rng.random() < 0.3:
        yield ["evaluate", str(model), str(write_table(later(table, rng), folder, "later", rng))]
    for name in ("new", "other", "third", "fourth", "fifth", "sixth"):
        yield _arms_line(table, labels, model, folder, name, rng)
    share = ["--cost", _by_arm(rng, labels), "--value", "10", "--share", amount(rng, 0.1, 0.5)]
    for more in ([], share):
        yield ["report", str(model), "-o", str(folder / "page.html"), *more]
    yield ["export", str(model), "--to", str(rng.choice(["sql", "json", "onnx"]))]
    refused = (["plan", "--model", str(model)], ["verify", data, "--model", str(model)],
               ["monitor", str(model), data, "--state", str(folder / "s")])  # fmt: skip
    yield refused[rng.integers(3)]


def _arms_line(
    table: pd.DataFrame, labels: list[str], model: Path, folder: Path, name: str, rng: Rng
) -> list[str]:
    """Who gets which arm, by a budget or a share, with limits of the arms."""
    people, n = changed(table, rng), len(table)
    people["price"] = rng.choice([0.5, 1.0, 2.0], len(people))
    people["never"] = rng.choice([0, 1], len(people))
    if rng.random() < 0.1:
        people["price"] = rng.choice([-1, np.nan, 1e300, 0.0], len(people))
    if rng.random() < 0.1:
        people["never"] = rng.choice(["yes", "no", "perhaps"], len(people))
    cost = ["--cost", _by_arm(rng, labels)]
    wishes = (["--budget", amount(rng, 1, 50), *cost], ["--share", ".3"],
              ["--value", "10", *cost], ["--budget", "50"],
              ["--share", amount(rng, 0.1, 0.5), *cost])  # fmt: skip
    wish = wishes[rng.integers(5)]
    arm = labels[rng.integers(0 if rng.random() < 0.1 else 1, len(labels))]
    limits = {
        "--at-most": rng.choice([0, 5, n, -1, 2.5]),
        "--at-least": rng.choice([0, 3, n, 2 * n, -1]),
        "--forbid": usually(rng, "never", "signal", "no such", chance=0.4),
        "--cost-column": usually(rng, "price", "no such", chance=0.3),
    }
    for option, value in limits.items():
        wish = [*wish, option, f"{arm}={value}"] if rng.random() < 0.3 else wish
    return _target_line(people, model, folder, name, [*wish, *some(rng, {"--all": 0.2})], rng)


def _by_arm(rng: Rng, labels: list[str]) -> str:
    """What each arm costs: all of them, some, or in words that say nothing."""
    if rng.random() < 0.2:
        return amount(rng, 0.1, 1, 2)
    chosen = labels[1:] if rng.random() < 0.85 else labels[: rng.integers(1, len(labels) + 1)]
    text = ",".join(f"{label}={amount(rng, 0.25, 0.5, 1, 2)}" for label in chosen)
    return usually(rng, text, "", "mail", "=", f"{text},{text}", chance=0.05)


# A trial without a model


def of_a_trial(rng: Rng, folder: Path) -> Lines:
    """It is planned, assigned, looked at while it runs, and verified."""
    table, options = odd_trial(rng)
    options = [option for option in options if option != "--json"]
    table["day"] = odd_days(rng, len(table))
    if "who" not in table:
        table["who"] = rng.permutation(len(table)) + 10
    if rng.random() < 0.05:  # ids that occur twice, or are missing
        table["who"] = table["who"].where(rng.random(len(table)) > 0.02, rng.choice([None, 10]))
    data = str(write_table(table, folder, "trial", rng))
    yield from _plan_lines(table, data, rng, folder)
    yield from _assign_lines(table, data, rng, folder)
    yield from _monitor_lines(table, options, rng, folder)
    yield from _verify_lines(table, options, rng, folder)


def _plan_lines(table: pd.DataFrame, data: str, rng: Rng, folder: Path) -> Lines:
    yield ["plan", *plan_options(rng)]
    groups = ["--groups", "home"] if "home" in table and rng.random() < 0.7 else []
    past = ["plan", data, "-y", usually(rng, "bought", "signal", "day")]
    yield [*past, *groups, *plan_options(rng, base=rng.random() < 0.1)]
    if rng.random() < 0.02:
        yield ["plan", *plan_options(rng), "--picture", str(folder / "power.svg")]


def plan_options(rng: Rng, *, base: bool = True, needs: bool = True) -> list[str]:
    """Assumptions: mostly numbers that a trial has; ``needs``: those without a model."""
    gain = f"--gain {amount(rng, 0.002, 0.01, 0.03)}"
    if rng.random() < 0.3:
        gain = f"--effect-sd {amount(rng, 0.05, 0.1)} --explained {amount(rng, 0.2, 0.5, 1)}"
    return some(
        rng,
        {f"--effect {amount(rng, 0.01, 0.05, 0, -0.02)} {gain}": float(needs),
         f"--base-rate {amount(rng, 0.05, 0.2, 0.5)}": float(base and needs),
         f"--rows {rng.choice([1000, 100_000, 1, 0, -5, 10**12])}": 0.4,
         f"--power {amount(rng, 0.8, 0.9)}": 0.2,
         f"--treated-share {amount(rng, 0.3, 0.5, 0.85)}": 0.3,
         f"--arms {rng.choice([2, 3, 0])}": 0.2, f"--outcome-sd {amount(rng, 1, 20)}": 0.1,
         f"--outcome-range {amount(rng, 0)} {amount(rng, 1, 500)}": 0.1,
         "--cross-fitted": 0.2, f"--effect {amount(rng, 0.02)}": 0.1},
    )  # fmt: skip


def _assign_lines(table: pd.DataFrame, data: str, rng: Rng, folder: Path) -> Lines:
    right = ("none=.5,mail=.5", "none=.2,mail=.8", "c=1/3,a=1/3,b=1/3", "0=.5,1=.5")
    odd = ("none=.5,mail=.6", "none=1", "none", "a=.5,a=.5", "none=-1,mail=2",
           "none=.123457,mail=.876543", "é=1/2,日本=1/2")  # fmt: skip
    listed = folder / f"assigned.{rng.choice(['csv', 'csv', 'parquet'])}"
    how = ["--id", usually(rng, "who", "signal", "missing")]
    how += ["--key", usually(rng, "k", "", "a'b", "日本", chance=0.1)]
    how += ["--arms", usually(rng, str(rng.choice(right)), *odd, chance=0.2)]
    how += ["--groups", "home"] if "home" in table and rng.random() < 0.5 else []
    how += ["--strata", str(rng.choice(list(table.columns)))] if rng.random() < 0.3 else []
    how += some(rng, {"--blocked": 0.2})
    yield ["assign", data, *how, "-o", str(listed)]
    more = pd.concat([table.iloc[: len(table) // 2], later(table, rng)])
    wave = str(write_table(more, folder, "wave", rng))
    yield ["assign", wave, *how, *some(rng, {"--key other": 0.2}), "-o", str(listed), "--add"]


def _monitor_lines(table: pd.DataFrame, options: list[str], rng: Rng, folder: Path) -> Lines:
    """Four looks: at a part, at all, at rows that were changed, and at another trial."""
    days = pd.to_datetime(table["day"], errors="coerce", format="mixed", utc=True)
    part = table[(days < "2026-01-20").to_numpy()]
    parts = _only(options, "-t", "-y", "--treated", "--control", "--id")
    parts += ["--lower-is-better"] if "--lower-is-better" in options else []
    window = usually(rng, str(rng.choice(["0", "7d", "4w", "36h"])), "-1", "soon", "1e9d")
    first = ["--score-column", usually(rng, "signal", "day", "given")]
    first += ["--date", usually(rng, "day", "signal", "missing")]
    first += some(
        rng,
        {f"--window {window}": 0.6,
         f"--treated-share {rng.choice([0.5, 0.4, 0, 1, 2, -1])}": 0.3,
         f"--delta {usually(rng, '0.1', '0', 'nan', '0.01', chance=0.3)}": 0.2,
         f"--outcome-range 0 {rng.choice(['1', '500', '0', 'inf'])}": 0.15},
    )  # fmt: skip
    next_days = (days + pd.Timedelta(60, unit="D")).dt.strftime("%Y-%m-%d")
    looks = (
        (part if len(part) else table, "2026-01-21", [*parts, *first]),
        (table, "2026-03-15", first if rng.random() < 0.2 else []),
        (spoilt(table, rng), "2026-03-20", []),
        (later(table.assign(day=next_days), rng), "2026-07-01", [*parts, "--date", "day"]),
    )
    odd = ("2020-01-01", "03.04.2026", "today", "2026-99-99", "9999-01-01", "2026-04-01T10:00Z")
    for number, (rows, day, more) in enumerate(looks):
        data = str(write_table(rows, folder, f"look{number}", rng))
        when = usually(rng, day, *odd)
        yield ["monitor", data, "--state", str(folder / "trial.state"), "--as-of", when, *more]


def _verify_lines(table: pd.DataFrame, options: list[str], rng: Rng, folder: Path) -> Lines:
    new = campaign_of(table, _arms(table, options), rng)
    data = str(write_table(new, folder, "campaign", rng))
    parts = _only(options, "-t", "-y", "--treated", "--control", "--id", "--groups")
    parts += [flag for flag in FLAGS[1:] if flag in options]
    chance = usually(rng, "chance", "signal", "given", chance=0.1)
    for more in ([], ["--propensity", chance], ["--propensity", chance]):
        yield ["verify", data, "--chosen", "top", *parts, *more]
    if (listed := next(folder.glob("assigned.*"), None)) is not None and rng.random() < 0.3:
        names = ["--id", "who", "-y", "bought", "-t", "given"]
        yield ["verify", data, "--list", str(listed), *names]


def _arms(table: pd.DataFrame, options: list[str]) -> tuple[Any, Any]:
    """The labels of control and treated, as values of the table."""
    values = sorted(pd.unique(table["given"].dropna()), key=str)
    named = _only(options, "--control", "--treated")[1::2]
    found = [value for name in named for value in values if str(value) == name]
    control, treated = found if len(found) == 2 else (values[0], values[-1])
    return control, treated


def _only(options: list[str], *names: str) -> list[str]:
    """Some options, which have a value each."""
    there = [name for name in names if name in options]
    return [word for name in there for word in (name, options[options.index(name) + 1])]


def _without(options: list[str], *names: str, flags: tuple[str, ...]) -> list[str]:
    """Options but some, which have a value each, and some flags."""
    kept, skip = [], False
    for option in options:
        if skip or option in (*names, *flags):
            skip = not skip and option in names
            continue
        kept.append(option)
    return kept
