"""Pages that the tests share: one of each kind, and one of hostile names."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.present.cases import model, table, trial, unfair
from tests.present.hostile import HOSTILE

import auucmax
from auucmax.model.check import check_trial
from auucmax.present.page import write_check, write_report

MONEY = {"cost": 0.15, "value": 1.0, "n_people": 20_000, "currency": "EUR"}


@cache
def compared():
    """The evidence of the usual model with rivals."""
    return model("works").compare(trial(table()), ["response", "cvt"])


def hostile_table():
    data = table(2_000)
    city = data["city"].map(dict(zip(["Bonn", "Kiel", "Ulm"], HOSTILE[:3], strict=True)))
    return pd.DataFrame({
        HOSTILE[0]: city,
        "W" * 5000: data["past"],
        HOSTILE[4]: np.where(data["sent"] == "e-mail", HOSTILE[2], HOSTILE[3]),
        HOSTILE[1]: data["visit"],
    })  # fmt: skip


@cache
def hostile_trial():
    names = {"treatment": HOSTILE[4], "outcome": HOSTILE[1], "control": HOSTILE[3]}
    return auucmax.read_trial(hostile_table(), **names)


@cache
def hostile_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = auucmax.fit(hostile_trial(), "tm")
    return replace(found, info=replace(found.info, file=HOSTILE[5]))


@pytest.fixture(scope="session")
def page_files(tmp_path_factory):
    """A page of each kind, by name."""
    folder = tmp_path_factory.mktemp("pages")

    def path(name):
        return folder / f"{name}.html"

    write_report(model("works"), path("plain"), share=0.3, evidence=compared(), **MONEY)
    write_report(model("works"), path("share"))
    write_report(model("arms"), path("arms"), value=9.0, n_people=5_000, currency="EUR")
    for name in ("harm", "few", "failed"):
        write_report(model(name), path(name))
    write_report(
        hostile_model(), path("hostile"), cost=0.1, value=4, share=0.3, currency=HOSTILE[1]
    )
    write_check(check_trial(trial(table())), path("check"), file="trial.csv")
    write_check(check_trial(trial(unfair())), path("unfair"))
    write_check(check_trial(hostile_trial()), path("hostile_check"), file=HOSTILE[5])
    return {own.stem: own for own in folder.iterdir()}


@pytest.fixture(scope="session")
def pages(page_files):
    """The same as texts."""
    return {name: path.read_text(encoding="utf-8") for name, path in page_files.items()}
