"""Odd tables that parse: in types, levels, arms, outcomes, ids, groups, names and form of file."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: Texts that have made readers, terminals, spreadsheets or pages stumble somewhere.
TEXTS = (
    "a", "b", "", " ", "0", "00123", "1e5", "NA", "null", "-", "=1+1", "@x", "<b>", "'", '"', "é",
    "\u202e", "日本", "x" * 300, "a,b", "a;b", "a\tb", "True", "12,5", "$ 1,234.00", "31/12/2020",
)  # fmt: skip
NAMES = (
    "age", "x", "a b", "spend", "é", "a,b", 'q"q', "score", "rank", "uplift", "y", "Y", "select",
    "1", "<i>", "日本", " lead", "trail ", "[b]", "x" * 80, "index", "__row", "decile", "arm",
)  # fmt: skip


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


def odd_groups(rng: np.random.Generator, n: int) -> Any:
    """Households of one row, of some or of many: numbers or texts."""
    size = int(rng.choice([1, 2, 3, 40]))
    homes = rng.permutation(n) // size
    return [f"h{home}" for home in homes] if rng.random() < 0.5 else homes


def write_table(table: pd.DataFrame, folder: Path, name: str, rng: np.random.Generator) -> Path:
    """In one of the formats, or dialects of CSV; what a format cannot hold is written as CSV."""
    writers = {
        "parquet": table.to_parquet,
        "jsonl": lambda path: table.to_json(path, orient="records", lines=True, date_format="iso"),
        "feather": table.reset_index(drop=True).to_feather,
        "xlsx": lambda path: table.to_excel(path, index=False),
    }
    kind = str(rng.choice(["csv", *writers], p=[0.6, 0.2, 0.12, 0.05, 0.03]))
    if kind in writers:
        # Mixed columns, numbers beyond 64 bits, whatever a writer refuses.
        with contextlib.suppress(Exception):
            writers[kind](folder / f"{name}.{kind}")
            return folder / f"{name}.{kind}"
    form = {"sep": str(rng.choice([",", ",", ";", "\t"]))}
    form["encoding"] = str(rng.choice(["utf-8", "utf-8-sig"]))
    table.to_csv(folder / f"{name}.csv", index=False, **form)
    return folder / f"{name}.csv"


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


# A trial of several arms, one that is running, and a campaign


def odd_labels(rng: np.random.Generator, n: int) -> tuple[Any, list[str]]:
    """A treatment column of several arms, and their labels, the control first."""
    kinds = (
        ["none", "mail", "phone"], ["none", "mail", "phone"], ["none", "mail", "phone", "visit"],
        [0, 1, 2], ["c", "a=1", "b,2"], [0.0, 1.5, 2.5], ["no", " ", "é"], ["A", "a", "B"],
    )  # fmt: skip
    labels = kinds[rng.choice(len(kinds), p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.04, 0.03, 0.03])]
    shares = np.full(len(labels), 1 / len(labels))
    if rng.random() < 0.05:  # an arm of nearly nobody
        shares = np.array([*[0.99 / (len(labels) - 1)] * (len(labels) - 1), 0.01])
    arms = pd.Series([labels[k] for k in rng.choice(len(labels), n, p=shares)])
    if rng.random() < 0.03:
        arms = arms.astype(object).where(rng.random(n) > 0.01, None)
    return arms, [str(label) for label in labels]


def odd_days(rng: np.random.Generator, n: int) -> Any:
    """The day on which each person came into a trial, of some 40 days in a row, mostly in order."""
    offsets = np.sort(rng.integers(0, 40, n))
    if rng.random() < 0.3:
        offsets = rng.permutation(offsets)
    days = pd.Series(pd.Timestamp("2026-01-01") + pd.to_timedelta(offsets, unit="D"))
    some = rng.random(n) < rng.choice([1 / n, 0.3])
    kinds = (
        days.dt.strftime("%Y-%m-%d"), days, days.dt.strftime("%d/%m/%Y"),
        days.dt.strftime("%Y-%m-%dT%H:%M:%S+02:00"), days.dt.tz_localize("America/New_York"),
        days.dt.strftime("%m/%d/%Y").where(some, days.dt.strftime("%d.%m.%Y")),
        days.dt.strftime("%Y-%m-%d").where(~some, days.dt.strftime("%d/%m/%Y")),
        days.dt.strftime("%Y-%m-%d").where(~some, None),
        days.dt.strftime("%Y-%m-%d").where(~some, "soon"), days.dt.strftime("%Y%m%d").astype(int),
        days + pd.to_timedelta(np.where(some, 80_000, 0), unit="D"), rng.standard_normal(n),
        pd.Series([None] * n, dtype=object), days.dt.strftime("%d %B %Y"),
    )  # fmt: skip
    chances = [0.5, 0.15, 0.06, 0.04, 0.04, 0.03, 0.03, 0.03, 0.03, 0.02, 0.02, 0.02, 0.01, 0.02]
    return _column(kinds[rng.choice(len(kinds), p=chances)])


def later(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Other people with the same columns: what is known of them, arms and outcomes are drawn."""
    new = table.copy()
    new["signal"] = rng.standard_normal(len(new)).round(3)
    for name in ("given", "bought"):
        new[name] = new[name].iloc[rng.permutation(len(new))].to_numpy()
    if "who" in new:
        ids = new["who"]
        is_number = pd.api.types.is_numeric_dtype(ids)
        others = ids + 1_000_000 if is_number else ids.astype(str) + "00000"
        new["who"] = others.where(ids.notna())
    return new


def campaign_of(
    table: pd.DataFrame, arms: tuple[Any, Any], rng: np.random.Generator
) -> pd.DataFrame:
    """The people of a campaign: who was chosen, with which chance, and the arm that was given."""
    n, (control, treated) = len(table), arms
    chosen = rng.random(n) < 0.4
    chance = np.where(chosen, 0.7, 0.3)
    given = rng.random(n) < chance
    some = rng.random(n) < 0.02
    chosen_as = (
        chosen, chosen.astype(int), np.where(chosen, "yes", "no"),
        pd.Series([treated if own else control for own in chosen]),
        pd.Series(np.where(chosen, "1", "0")).where(~some, None), np.where(some, "maybe", "no"),
        np.ones(n), np.zeros(n), given,
    )  # fmt: skip
    chance_as = (
        chance, chance, 100 * chance, np.char.replace(chance.astype(str), ".", ","),
        np.full(n, 0.5), chance + np.where(some, 0.4, 0), -chance, rng.uniform(0, 1, n),
        pd.Series(chance).where(~some), given.astype(float), np.where(chosen, 0.999, 0.001),
    )  # fmt: skip
    new = table.copy()
    new["given"] = [treated if own else control for own in given]
    odds = [0.3, 0.2, 0.2, 0.1, 0.06, 0.04, 0.04, 0.02, 0.04]
    new["top"] = _column(chosen_as[rng.choice(len(chosen_as), p=odds)])
    odds = [0.4, 0.16, 0.06, 0.06, 0.06, 0.06, 0.04, 0.04, 0.04, 0.04, 0.04]
    new["chance"] = _column(chance_as[rng.choice(len(chance_as), p=odds)])
    return new


def _column(values: Any) -> Any:
    return values.to_numpy() if isinstance(values, pd.Series) else values


def spoilt(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The same rows at a later look: as they were, or changed as tables of a trial never should."""

    def shuffled(name: str) -> Any:
        return table[name].iloc[rng.permutation(len(table))].to_numpy()

    kinds = (
        lambda: table.assign(given=shuffled("given")),
        lambda: table.assign(bought=shuffled("bought")),
        lambda: pd.concat([table, table.tail(5)]),
        lambda: table.drop(index=table.index[rng.integers(len(table))]),
        lambda: table.drop(columns=str(rng.choice(list(table.columns)))),
        lambda: table.assign(day=odd_days(rng, len(table)) if "day" in table else 0),
        lambda: later(table, rng),
        *[table.copy] * 3,
    )
    return kinds[rng.integers(len(kinds))]()
