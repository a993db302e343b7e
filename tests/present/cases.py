"""One small result of each kind and state, whose texts are kept in ``snapshots``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from tests.present.html_page import Page

from auucmax import compare, make_trial
from auucmax.campaign.assign import assign
from auucmax.campaign.monitor import Monitor
from auucmax.campaign.plan import plan_trial
from auucmax.campaign.verify import verify
from auucmax.data.read_trial import read_trial
from auucmax.model.check import check_trial
from auucmax.model.chosen import Limits, target
from auucmax.model.pipeline import fit
from auucmax.present.brief import text
from auucmax.present.page import model_card, write_check, write_report

FOLDER = Path(__file__).parent / "snapshots"


def table(n: int = 6000, seed: int = 0, n_arms: int = 1, effect: float = 0.25) -> pd.DataFrame:
    """People of a trial of e-mails, which work for those with more than two past orders."""
    rng = np.random.default_rng(seed)
    age, past = rng.integers(18, 80, n), rng.poisson(2, n)
    city = rng.choice(["Bonn", "Kiel", "Ulm"], n)
    arm = rng.integers(0, n_arms + 1, n)
    rate = 0.3 + effect * (arm == 1) * (past > 2) + 0.1 * (arm == 2) * (age > 50)
    visit = (rng.random(n) < rate).astype(int)
    labels = np.array(["no e-mail", "e-mail", "letter"])[arm]
    return pd.DataFrame(
        {"customer": np.arange(n), "age": age, "past": past, "city": city, "sent": labels,
         "visit": visit}
    )  # fmt: skip


def trial(data: pd.DataFrame, **more: Any) -> Any:
    names = {"treatment": "sent", "outcome": "visit", "control": "no e-mail", "id": "customer"}
    return read_trial(data, **(names | more))


@cache
def model(kind: str) -> Any:
    """A fitted model by what its trial shows."""
    options: dict[str, Any] = {}
    data = table()
    if kind == "unclear":
        data = table(effect=0.0, seed=3)
    elif kind == "few":
        data = table(n=900)
    elif kind == "harm":
        data = table(effect=-0.25)
    elif kind == "arms":
        data = table(9000, n_arms=2)
        options = {"cost": {"e-mail": 1, "letter": 2}, "budget": 0.5}
    elif kind == "cheap":
        data = table(9000, n_arms=2)
        options = {"cost": {"e-mail": 9, "letter": 0.1}}
    elif kind == "free":
        data = table(9000, n_arms=2)
    elif kind == "failed":
        data = unfair()
        options = {"despite_check": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(trial(data), "tm", **options)
    return replace(found, info=replace(found.info, date="2026-01-01T00:00:00Z", version="0"))


def unfair() -> pd.DataFrame:
    data = table()
    return data[(data["sent"] == "no e-mail") | (data["age"] > 30)]


def lossy() -> pd.DataFrame:
    data = table(effect=-0.25)
    return data.assign(visit=data["visit"].where(data["customer"] % 20 > 0))


def chosen(kind: str, **terms: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        people = terms.pop("people", None)
        return target(model(kind), table(2000, seed=9) if people is None else people, **terms)


@cache
def campaign(effect: float) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    top = rng.random(20_000) < 0.3
    chance = np.where(top, 0.9, 0.1)
    mail = rng.random(20_000) < chance
    visit = rng.random(20_000) < 0.1 + effect * top * mail
    return pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": visit})


def verified(effect: float) -> Any:
    return verify(
        campaign(effect), chosen="top", propensity="chance", treatment="mail", outcome="visit",
        cost=0.1, value=2,
    )  # fmt: skip


def look(effect: float, *, rows: float = 1.0) -> Any:
    """A look at a trial with this effect on everyone; ``rows``: the part of the treated kept."""
    data = table(12_000, effect=0.0, seed=5)
    rng = np.random.default_rng(1)
    treated = (data["sent"] == "e-mail").to_numpy()
    data["visit"] = (rng.random(len(data)) < 0.3 + effect * treated).astype(int)
    data = data[~treated | (rng.random(len(data)) < rows)].copy()
    data["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(data)) % 28, unit="D")
    monitor = Monitor(
        treatment="sent", outcome="visit", control="no e-mail", id="customer", date="day",
        treated_share=0.5, window=0,
    )  # fmt: skip
    return monitor.look(data, as_of="2026-02-01")


def compared() -> Any:
    data = make_trial(4000, n_features=4, heterogeneity=0.9, random_state=0)
    found = compare(["tm", "response", "cvt"], data, splits=3)
    return replace(found, frame=found.frame.assign(fit_seconds=0.1))


CASES: dict[str, Callable[[], Any]] = {
    "fit_works": lambda: model("works"),
    "fit_unclear": lambda: model("unclear"),
    "fit_few": lambda: model("few"),
    "fit_harm": lambda: model("harm"),
    "fit_failed": lambda: model("failed"),
    "fit_arms": lambda: model("arms"),
    "fit_arms_cheap": lambda: model("cheap"),
    "fit_arms_free": lambda: model("free"),
    "evaluate": lambda: model("works").evaluate(trial(table(seed=8))),
    "evaluate_failed": lambda: model("works").evaluate(trial(unfair())),
    "target_share": lambda: chosen("works", share=0.3),
    "target_budget": lambda: chosen("works", budget=40, cost=0.15),
    "target_profit": lambda: chosen("works", cost=0.15, value=1.0),
    "target_loss": lambda: chosen("works", share=0.9, cost=0.15, value=1.0),
    "target_unclear": lambda: chosen("unclear", share=0.3),
    "target_nobody": lambda: chosen("unclear", cost=0.5, value=1.0),
    "target_harm": lambda: chosen("harm", share=1.0),
    "target_small_share": lambda: chosen("works", share=0.01),
    "target_failed": lambda: chosen("failed", share=0.3),
    "target_unlike": lambda: chosen(
        "works", share=0.3, people=table(2000, seed=9).assign(past=lambda own: own["past"] + 5)
    ),
    "target_excluded": lambda: chosen("works", share=0.3, exclude=["1", "2", "77777"]),
    "target_arms_budget": lambda: chosen("arms", budget=600),
    "target_arms_costs": lambda: chosen("arms", budget=500, cost=[1, 1]),
    "target_arms_limits": lambda: chosen(
        "arms", budget=600, limits=Limits(at_most={"e-mail": 300})
    ),
    "check_passes": lambda: check_trial(trial(table()), expected_share=0.5),
    "check_fails": lambda: check_trial(trial(unfair()), expected_share=0.5),
    "check_harm": lambda: check_trial(trial(lossy(), drop_missing_outcomes=True)),
    "check_leak": lambda: check_trial(
        trial(table(n_arms=2).assign(opened=lambda own: (own["sent"] == "e-mail") * 1))
    ),
    "trial": lambda: trial(table()),
    "compare": compared,
    "plan": lambda: plan_trial(base_rate=0.1, effect=0.03, effect_sd=0.04, explained=0.5),
    "plan_size": lambda: plan_trial(base_rate=0.1, effect=0.03, gain=0.006, n_rows=5000, n_arms=2),
    "plan_model": lambda: plan_trial(model=model("works")),
    "assign": lambda: assign(
        table(2000, seed=9), id="customer", arms="no e-mail=.5,e-mail=.5", key="spring"
    ),
    "assign_model": lambda: assign(
        table(2000, seed=9), id="customer", model=model("works"), share=0.3, explore=0.1,
        key="spring",
    ),
    "look_continue": lambda: look(0.0),
    "look_works": lambda: look(0.15),
    "look_harm": lambda: look(-0.15),
    "look_broken": lambda: look(0.0, rows=0.8),
    "verify_few": lambda: verify(
        campaign(0.2).head(400).assign(home=range(400)), chosen="top", treatment="mail",
        outcome="visit", groups="home",
    ),
    "verify_works": lambda: verified(0.08),
    "verify_unclear": lambda: verified(0.005),
    "verify_harm": lambda: verified(-0.08),
}  # fmt: skip


def page(name: str, **options: Any) -> str:
    """What a reader sees of a report, or of the page of a check."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        if name == "check":
            write_check(check_trial(trial(table())), path, file="visits.csv")
        else:
            write_report(model(name), path, **options)
        return Page(path.read_text(encoding="utf-8")).text


CASES |= {
    "page_profit": lambda: page("works", cost=0.15, value=1.0, currency="EUR"),
    "page_arms": lambda: page("arms", value=9.0),
    "page_unclear": lambda: page("unclear"),
    "page_failed": lambda: page("failed"),
    "page_check": lambda: page("check"),
    "card": lambda: model_card(model("works")),
}


def snapshot(name: str) -> str:
    """The text of a result with its details; a page or card is a text already."""
    found = CASES[name]()
    if isinstance(found, str):
        return found + "\n"
    return text(found, details=True, file="visits.auucmax") + "\n"
