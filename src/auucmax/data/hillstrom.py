"""Hillstrom's e-mail trial, embedded in the package."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from auucmax._validation import check_choice
from auucmax.data.trial import Trial

CONTROL = "No E-Mail"
ARMS = {"womens": "Womens E-Mail", "mens": "Mens E-Mail"}
OUTCOMES = ("visit", "conversion", "spend")
LEVELS = {
    "recency": range(1, 13),
    "history_segment": range(1, 8),
    "zip_code": ("Rural", "Surburban", "Urban"),
    "channel": ("Multichannel", "Phone", "Web"),
}
RAW = ["recency", "history_segment", "history", "mens", "womens", "zip_code", "newbie", "channel"]


def load_hillstrom(
    arm: str = "womens", outcome: str = "visit", encoding: str | int = "22"
) -> Trial:
    """The e-mail trial that K. Hillstrom published in 2008: 64,000 customers, three arms.

    Parameters
    ----------
    arm : {"womens", "mens", "any", "all"}, default "womens"
        Which e-mail against none. "any" takes both e-mails as one treatment, "all" keeps the three
        labels ("No E-Mail" is the control).
    outcome : {"visit", "conversion", "spend"}, default "visit"
        Within two weeks: a visit to the site, a purchase, dollars spent.
    encoding : {"22", "18", "raw"}, default "22"
        "22": recency_1..recency_12, zip_Rural, zip_Surburban (as the file spells it), zip_Urban,
        channel_Multichannel, channel_Phone, channel_Web, history, mens, womens, newbie.
        "18": recency, history, mens, womens, newbie, history_segment_1..history_segment_7, and the
        same zip and channel columns. Both are float64 and not scaled (history is in dollars).
        "raw": the eight columns of the file, text as pandas categories.

    Returns
    -------
    Trial

    Examples
    --------
    >>> from auucmax.data.hillstrom import load_hillstrom
    >>> load_hillstrom()
    Hillstrom, Womens E-Mail: 42,693 rows, 22 features; outcome visit by segment
    arm              rows  share  mean of visit
    No E-Mail      21,306  49.9%         0.1062
    Womens E-Mail  21,387  50.1%         0.1514
    effect of Womens E-Mail against No E-Mail: 0.04523 (standard error 0.0032)
      95% interval 0.03889 to 0.05157, p < 0.0001
    """
    check_choice(arm, "arm", (*ARMS, "any", "all"))
    check_choice(outcome, "outcome", OUTCOMES)
    check_choice(str(encoding), "encoding", ("22", "18", "raw"))
    table = _table()
    # Copies throughout: the caller may edit a trial, and the table is kept for the next call.
    segment = table["segment"].to_numpy(copy=True)
    title = "three arms" if arm == "all" else ARMS.get(arm, "any e-mail")
    if arm in ARMS:
        table = table[(segment == CONTROL) | (segment == ARMS[arm])].reset_index(drop=True)
        segment = table["segment"].to_numpy()
    elif arm == "any":
        segment = np.where(segment == CONTROL, CONTROL, "Any E-Mail")
    return Trial(
        X=_features(table, str(encoding)),
        y=table[outcome].to_numpy(dtype=np.float64, copy=True),
        treatment=segment,
        control=CONTROL,
        name=f"Hillstrom, {title}",
        outcome_name=outcome,
        treatment_name="segment",
    )


@cache
def _table() -> pd.DataFrame:
    packed = files("auucmax.data") / "files" / "hillstrom.csv.gz"
    with packed.open("rb") as file, gzip.open(file) as text:
        return pd.read_csv(text, dtype={"segment": object})


def _features(table: pd.DataFrame, encoding: str) -> pd.DataFrame:
    if encoding == "raw":
        text = ["history_segment", "zip_code", "channel"]
        return table[RAW].astype(dict.fromkeys(text, "category")).copy()
    names = ("recency", "history", "mens", "womens", "newbie")
    numbers = {name: table[name].astype(np.float64) for name in names}
    places = {**_one_hot(table, "zip_code", "zip"), **_one_hot(table, "channel")}
    if encoding == "18":
        return pd.DataFrame({**numbers, **_one_hot(table, "history_segment"), **places})
    del numbers["recency"]
    return pd.DataFrame({**_one_hot(table, "recency"), **places, **numbers})


def _one_hot(table: pd.DataFrame, column: str, prefix: str | None = None) -> dict[str, pd.Series]:
    values = table[column]
    if column == "history_segment":
        # "3) $200 - $350" is segment 3: the number alone makes a name that every library accepts.
        values = values.str[0].astype(int)
    return {
        f"{prefix or column}_{level}": (values == level).astype(np.float64)
        for level in LEVELS[column]
    }
