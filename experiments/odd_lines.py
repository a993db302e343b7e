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

from experiments.odd_tables import (
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


def lines_of(seed: int, folder: Path) -> Iterator[list[str]]:
    """The commands of a seed; those after a fit only if it wrote a model."""
    rng = np.random.default_rng(seed)
    story = rng.choice(3, p=[0.72, 0.06, 0.22])
    yield from (of_two_arms, of_several_arms, of_a_trial)[story](rng, folder)


# A model of two arms


def of_two_arms(rng: np.random.Generator, folder: Path) -> Iterator[list[str]]:
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
    if rng.random() < 0.4:
        yield from after_a_model(table, options, model, rng, folder)


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
        (["--hold-out", "0.4"], 0.1 if n > 400 else 0.01),
        (["--json"], 0.2), (["--features", "signal"], 0.1), (["--ignore", "no such"], 0.01),
        (["--seed", "7"], 0.1), (["--despite-check"], 0.5), (["--lower-is-better"], 0.15),
        (["--drop-missing-outcomes"], 0.4), (["--candidates", str(rng.choice([0, 1, 3]))], 0.05),
        (["--categorical", column], 0.05), (["--numeric", column], 0.05),
        (["--after", column], 0.1),
        (["--decimal", str(rng.choice([",", "."]))], 0.02),
    ):  # fmt: skip
        options += line if rng.random() < chance else []
    names = list(MODELS)
    return table, [*options, "-m", str(rng.choice(names, p=[MODELS[name] for name in names]))]


#: How often each model is fitted; those that take longer are drawn less often.
MODELS = {
    "tm": 0.64, "cvt": 0.15, "response": 0.12, "shrunk": 0.04, "auucmax": 0.03, "auto": 0.01,
    "nonsense": 0.01,
}  # fmt: skip


def odd_chances(rng: np.random.Generator, n: int) -> Any:
    """Chances of treatment of each row: rightly written, or not."""
    chance = rng.choice([0.3, 0.5, 0.7], n)
    odd = np.where(rng.random(n) < 0.02, rng.choice([0.0, 1.0, -0.1, 1.4, np.nan]), chance)
    kinds = (chance, np.full(n, 0.5), odd, 100 * chance, rng.uniform(0.2, 0.8, n),
             pd.Series(chance).astype(str).str.replace(".", ",").to_numpy())  # fmt: skip
    return kinds[rng.choice(len(kinds), p=[0.3, 0.3, 0.15, 0.05, 0.15, 0.05])]


def _target_line(
    table: pd.DataFrame, model: Path, folder: Path, name: str, rng: np.random.Generator
) -> list[str]:
    """A list of people of another table, by one of the ways to say how many."""
    people = changed(table, rng)
    new = str(write_table(people, folder, name, rng))
    wishes = ("--share .3", "--share 0", "--share 1", "--share 30", "--budget 50 --cost 1",
              "--cost 1 --value 9")  # fmt: skip
    wish = wishes[rng.integers(6)].split()
    more = ["--new-levels", "other"] if rng.random() < 0.5 else []
    if rng.random() < 0.1:
        more += ["--exclude", _unwanted(people, folder, rng)]
    to = str(folder / f"list.{rng.choice(['csv', 'parquet'])}")
    return ["target", str(model), new, *wish, *more, "-o", to, *_json(rng)]


def _unwanted(people: pd.DataFrame, folder: Path, rng: np.random.Generator) -> str:
    """A table of people who are not to be treated: of the list, of others, of nobody."""
    if "who" not in people:
        return str(write_table(people, folder, "unwanted", rng))
    ids = people[["who"]].iloc[: rng.integers(len(people) + 1)]
    if rng.random() < 0.3:
        ids = pd.concat([ids, ids.astype(str), pd.DataFrame({"who": ["nobody", None]})])
    return str(write_table(ids.astype(str) if ids.empty else ids, folder, "unwanted", rng))


def after_a_model(
    table: pd.DataFrame, options: list[str], model: Path, rng: np.random.Generator, folder: Path
) -> Iterator[list[str]]:
    """The next trial, and the campaign, of people whom a model chooses."""
    new = campaign_of(later(table, rng), _arms(table, options), rng)
    new["day"] = odd_days(rng, len(new))
    if "who" not in new:
        new["who"] = np.arange(len(new))
    data, own = str(write_table(new, folder, "campaign", rng)), ["--model", str(model)]
    yield ["plan", *own, *plan_options(rng, needs=False), *_json(rng)]
    listed, state = str(folder / "assigned.csv"), str(folder / "by-model.state")
    ids = str(rng.choice(["who", "signal", "given"], p=[0.94, 0.03, 0.03]))
    top = ["--share", str(rng.choice([0.3, 0.5, 0, 1, 30], p=[0.5, 0.3, 0.05, 0.1, 0.05]))]
    top += ["--explore", str(rng.choice([0.1, 0.3, 0, 1], p=[0.5, 0.4, 0.05, 0.05]))]
    yield ["assign", data, *own, "--id", ids, "--key", "k", *top, "-o", listed, *_json(rng)]
    who, came = ["--chosen", "top", "--propensity", "chance"], data
    if rng.random() < 0.5:
        who = ["--list", listed, "--id", ids]
        bare = new[[name for name in ("who", "bought", "signal") if name in new]]
        came = str(write_table(bare, folder, "outcomes", rng))
    yield ["verify", came, *who, *own, "--json"]
    page = ["report", str(model), "-o", str(folder / "page.html")]
    yield [*page, "--campaign", str(folder / PRINTED), *_json(rng)]
    yield ["verify", came, *who, *own]
    look = ["--date", "day", "--as-of", "2026-03-01", "--state", state]
    yield ["monitor", str(model), data, *look, *_json(rng)]
    yield ["monitor", str(model), str(write_table(spoilt(new, rng), folder, "next", rng)), *look]


# A model of several arms


def of_several_arms(rng: np.random.Generator, folder: Path) -> Iterator[list[str]]:
    """A fit against a control, and who should get which arm."""
    n = int(rng.choice([30, 300, 450, 600], p=[0.05, 0.35, 0.3, 0.3]))
    table = odd_table(rng, n)
    table["given"], labels = odd_labels(rng, n)
    table["bought"] = odd_outcome(rng, n, table["signal"], table["given"])
    options = ["-t", "given", "-y", "bought", "--control", labels[0], "-m", "tm"]
    if rng.random() < 0.5:
        table["who"] = rng.permutation(n) + 10
        options += ["--id", "who"]
    if rng.random() < 0.1:
        table["home"] = odd_groups(rng, n)
        options += ["--groups", "home"]
    if rng.random() < 0.05:
        table["chance"] = odd_chances(rng, n)
        options += ["--propensity", "chance"]
    for line, chance in (
        (["--cost", _by_arm(rng, labels)], 0.2), (["--budget", _amount(rng)], 0.1),
        (["--hold-out", "0.4"], 0.02), (["--despite-check"], 0.7), (["--lower-is-better"], 0.1),
        (["--drop-missing-outcomes"], 0.4), (["--json"], 0.2),
        (["--features", "signal"], 0.1), (["--candidates", "3"], 0.05),
    ):  # fmt: skip
        options += line if rng.random() < chance else []
    data, model = str(write_table(table, folder, "trial", rng)), folder / "m.model"
    yield ["fit", data, *options, "-o", str(model)]
    if not model.exists():
        return
    yield ["evaluate", str(model), *_json(rng)]
    if rng.random() < 0.3:
        new = str(write_table(later(table, rng), folder, "later", rng))
        yield ["evaluate", str(model), new, *_json(rng)]
    for name in ("new", "other", "third", "fourth", "fifth", "sixth"):
        yield _arms_line(table, labels, model, folder, name, rng)
    for more in ([], ["--cost", _by_arm(rng, labels), "--value", "10", "--share", _amount(rng)]):
        yield ["report", str(model), "-o", str(folder / "page.html"), *more, *_json(rng)]
    yield ["export", str(model), "--to", str(rng.choice(["sql", "json", "onnx"])), *_json(rng)]
    more = (["plan", "--model", str(model)], ["verify", data, "--model", str(model)],
            ["monitor", str(model), data, "--state", str(folder / "s")])  # fmt: skip
    yield more[rng.integers(3)]


def _arms_line(
    table: pd.DataFrame,
    labels: list[str],
    model: Path,
    folder: Path,
    name: str,
    rng: np.random.Generator,
) -> list[str]:
    """Who gets which arm, by a budget or a share, with limits of the arms."""
    people, n = changed(table, rng), len(table)
    people["price"] = rng.choice([0.5, 1.0, 2.0], len(people))
    people["never"] = rng.choice([0, 1], len(people))
    if rng.random() < 0.1:
        people["price"] = rng.choice([-1, np.nan, 1e300, 0.0], len(people))
    if rng.random() < 0.1:
        people["never"] = rng.choice(["yes", "no", "perhaps"], len(people))
    wishes = (["--budget", _amount(rng), "--cost", _by_arm(rng, labels)], ["--share", ".3"],
              ["--value", "10", "--cost", _by_arm(rng, labels)], ["--budget", "50"],
              ["--share", _amount(rng), "--cost", _by_arm(rng, labels)])  # fmt: skip
    wish = wishes[rng.integers(5)]
    arm = labels[rng.integers(0 if rng.random() < 0.1 else 1, len(labels))]
    for line, chance in (
        (["--at-most", f"{arm}={rng.choice([0, 5, n, -1, 2.5])}"], 0.3),
        (["--at-least", f"{arm}={rng.choice([0, 3, n, 2 * n, -1])}"], 0.3),
        (["--forbid", f"{arm}={rng.choice(['never', 'never', 'signal', 'no such'])}"], 0.3),
        (["--cost-column", f"{arm}={rng.choice(['price', 'price', 'no such'])}"], 0.2),
        (["--exclude", _unwanted(people, folder, rng)], 0.1), (["--all"], 0.2),
        (["--new-levels", "other"], 0.5),
    ):  # fmt: skip
        wish = [*wish, *line] if rng.random() < chance else wish
    new = str(write_table(people, folder, name, rng))
    to = str(folder / f"list.{rng.choice(['csv', 'parquet'])}")
    return ["target", str(model), new, *wish, "-o", to, *_json(rng)]


def _by_arm(rng: np.random.Generator, labels: list[str]) -> str:
    """What each arm costs: all of them, some, or in words that say nothing."""
    if rng.random() < 0.2:
        return _amount(rng)
    some = labels[1:] if rng.random() < 0.85 else labels[: rng.integers(1, len(labels) + 1)]
    text = ",".join(f"{label}={_amount(rng)}" for label in some)
    return text if rng.random() < 0.95 else str(rng.choice(["", "mail", "=", f"{text},{text}"]))


def _amount(rng: np.random.Generator) -> str:
    """Mostly a sensible amount of money, or a share."""
    if rng.random() < 0.85:
        return str(rng.choice(["0.1", "1", ".25", "2", "0.5"]))
    return str(rng.choice(["0", "-1", "nan", "inf", "1e300", "1e-300", "some", "30", "1e9"]))


# A trial without a model


def of_a_trial(rng: np.random.Generator, folder: Path) -> Iterator[list[str]]:
    """It is planned, assigned, looked at while it runs, and verified."""
    table, options = odd_trial(rng)
    table["day"] = odd_days(rng, len(table))
    if "who" not in table:
        table["who"] = rng.permutation(len(table)) + 10
    if rng.random() < 0.05:  # ids that stand twice, or are missing
        table["who"] = table["who"].where(rng.random(len(table)) > 0.02, rng.choice([None, 10]))
    data = str(write_table(table, folder, "trial", rng))
    yield from _plan_lines(table, data, rng, folder)
    yield from _assign_lines(table, data, rng, folder)
    yield from _monitor_lines(table, options, rng, folder)
    yield from _verify_lines(table, options, rng, folder)


def _plan_lines(
    table: pd.DataFrame, data: str, rng: np.random.Generator, folder: Path
) -> Iterator[list[str]]:
    yield ["plan", *plan_options(rng), *_json(rng)]
    groups = ["--groups", "home"] if "home" in table and rng.random() < 0.7 else []
    past = ["plan", data, "-y", str(rng.choice(["bought", "signal", "day"], p=[0.9, 0.06, 0.04]))]
    yield [*past, *groups, *plan_options(rng, base=rng.random() < 0.1), *_json(rng)]
    if rng.random() < 0.02:
        yield ["plan", *plan_options(rng), "--picture", str(folder / "power.svg")]


def plan_options(rng: np.random.Generator, *, base: bool = True, needs: bool = True) -> list[str]:
    """What is assumed: mostly numbers that a trial has; ``needs``: those without a model."""

    def number(*right: float) -> str:
        odd = ("0", "1", "-0.1", "1.2", "nan", "inf", "1e300", "1e-300", "-5", "0.5")
        return str(rng.choice(odd if rng.random() < 0.06 else [f"{own:g}" for own in right]))

    gain = ["--gain", number(0.002, 0.01, 0.03)]
    if rng.random() < 0.3:
        gain = ["--effect-sd", number(0.05, 0.1), "--explained", number(0.2, 0.5, 1)]
    options = ["--effect", number(0.01, 0.05, 0, -0.02), *gain] if needs else []
    options += ["--base-rate", number(0.05, 0.2, 0.5)] if base and needs else []
    for line, chance in (
        (["--rows", str(rng.choice([1000, 100_000, 1, 0, -5, 10**12]))], 0.4),
        (["--power", number(0.8, 0.9)], 0.2), (["--treated-share", number(0.3, 0.5, 0.85)], 0.3),
        (["--arms", str(rng.choice([2, 3, 0]))], 0.2), (["--outcome-sd", number(1, 20)], 0.1),
        (["--outcome-range", number(0), number(1, 500)], 0.1), (["--cross-fitted"], 0.2),
        (["--effect", number(0.02)], 0.1),
    ):  # fmt: skip
        options += line if rng.random() < chance else []
    return options


def _assign_lines(
    table: pd.DataFrame, data: str, rng: np.random.Generator, folder: Path
) -> Iterator[list[str]]:
    arms = ("none=.5,mail=.5", "none=.5,mail=.5", "none=.2,mail=.8", "c=1/3,a=1/3,b=1/3",
            "none=.5,mail=.6", "none=1", "none", "a=.5,a=.5", "none=-1,mail=2", "none=.123457,"
            "mail=.876543", "0=.5,1=.5", "é=1/2,日本=1/2")  # fmt: skip
    text = str(
        rng.choice(arms, p=[0.3, 0.2, 0.1, 0.1, 0.03, 0.02, 0.02, 0.03, 0.03, 0.05, 0.1, 0.02])
    )
    listed = folder / f"assigned.{rng.choice(['csv', 'csv', 'parquet'])}"
    how = ["--id", str(rng.choice(["who", "signal", "no such"], p=[0.94, 0.03, 0.03]))]
    how += ["--key", str(rng.choice(["k", "", "a'b", "日本"], p=[0.9, 0.03, 0.05, 0.02]))]
    how += ["--arms", text]
    if "home" in table and rng.random() < 0.5:
        how += ["--groups", "home"]
    if rng.random() < 0.3:
        how += ["--strata", str(rng.choice(list(table.columns)))]
    how += ["--blocked"] if rng.random() < 0.2 else []
    yield ["assign", data, *how, "-o", str(listed), *_json(rng)]
    more = pd.concat([table.iloc[: len(table) // 2], later(table, rng)])
    wave = str(write_table(more, folder, "wave", rng))
    other = how if rng.random() < 0.8 else [*how[:-1], "other"]
    yield ["assign", wave, *other, "-o", str(listed), "--add", *_json(rng)]


def _monitor_lines(
    table: pd.DataFrame, options: list[str], rng: np.random.Generator, folder: Path
) -> Iterator[list[str]]:
    """Four looks: at a part, at all, at rows that were changed, and at another trial."""
    days = pd.to_datetime(table["day"], errors="coerce", format="mixed", utc=True)
    part = table[(days < "2026-01-20").to_numpy()]
    state, windows = str(folder / "trial.state"), ("0", "7d", "4w", "36h", "-1", "soon", "1e9d")
    parts = _only(options, "-t", "-y", "--treated", "--control", "--id")
    parts += ["--lower-is-better"] if "--lower-is-better" in options else []
    first = ["--score-column", str(rng.choice(["signal", "day", "given"], p=[0.9, 0.05, 0.05]))]
    first += ["--date", str(rng.choice(["day", "signal", "no such"], p=[0.94, 0.03, 0.03]))]
    for line, chance in (
        (["--window", str(rng.choice(windows, p=[0.2, 0.4, 0.2, 0.1, 0.03, 0.04, 0.03]))], 0.6),
        (["--treated-share", str(rng.choice([0.5, 0.4, 0, 1, 2, -1]))], 0.3),
        (["--delta", str(rng.choice(["0.1", "0.01", "0", "nan"], p=[0.5, 0.4, 0.05, 0.05]))], 0.2),
        (["--outcome-range", "0", str(rng.choice([1, 500, 0, "inf"]))], 0.15),
    ):  # fmt: skip
        first += line if rng.random() < chance else []
    next_days = (days + pd.Timedelta(60, unit="D")).dt.strftime("%Y-%m-%d")
    looks = (
        (part if len(part) else table, "2026-01-21", [*parts, *first]),
        (table, "2026-03-15", first if rng.random() < 0.2 else []),
        (spoilt(table, rng), "2026-03-20", []),
        (later(table.assign(day=next_days), rng), "2026-07-01", [*parts, "--date", "day"]),
    )
    for number, (rows, day, more) in enumerate(looks):
        odd = ("2020-01-01", "03.04.2026", "today", "2026-99-99", "9999-01-01", "2026-04-01T10:00Z")
        when = day if rng.random() < 0.93 else str(rng.choice(odd))
        data = str(write_table(rows, folder, f"look{number}", rng))
        yield ["monitor", data, "--state", state, "--as-of", when, *more, *_json(rng)]


def _verify_lines(
    table: pd.DataFrame, options: list[str], rng: np.random.Generator, folder: Path
) -> Iterator[list[str]]:
    new = campaign_of(table, _arms(table, options), rng)
    data = str(write_table(new, folder, "campaign", rng))
    parts = _only(options, "-t", "-y", "--treated", "--control", "--id", "--groups")
    flags = ("--lower-is-better", "--drop-missing-outcomes")
    parts += [flag for flag in flags if flag in options]
    chance = str(rng.choice(["chance", "signal", "given"], p=[0.9, 0.05, 0.05]))
    for more in ([], ["--propensity", chance], ["--propensity", chance]):
        yield ["verify", data, "--chosen", "top", *parts, *more, *_json(rng)]
    if (listed := next(folder.glob("assigned.*"), None)) is not None and rng.random() < 0.3:
        names = ["--id", "who", "-y", "bought", "-t", "given"]
        yield ["verify", data, "--list", str(listed), *names, *_json(rng)]


def _arms(table: pd.DataFrame, options: list[str]) -> tuple[Any, Any]:
    """The labels of control and treated, as values of the table."""
    values = sorted(pd.unique(table["given"].dropna()), key=str)
    named = [
        options[options.index(arm) + 1] for arm in ("--control", "--treated") if arm in options
    ]
    found = [value for name in named for value in values if str(value) == name]
    control, treated = found if len(found) == 2 else (values[0], values[-1])
    return control, treated


def _only(options: list[str], *names: str) -> list[str]:
    """Some options, which have a value each."""
    return [
        word
        for name in names
        if name in options
        for word in (name, options[options.index(name) + 1])
    ]


def _json(rng: np.random.Generator) -> list[str]:
    return ["--json"] if rng.random() < 0.3 else []


#: Options of ``fit`` that have no value, and that ``check`` has not.
FLAGS = ("--despite-check", "--lower-is-better", "--drop-missing-outcomes")


def _without(options: list[str], *names: str, flags: tuple[str, ...]) -> list[str]:
    """Options but some, which have a value each, and some flags."""
    kept, skip = [], False
    for option in options:
        if skip or option in (*names, *flags):
            skip = not skip and option in names
            continue
        kept.append(option)
    return kept
