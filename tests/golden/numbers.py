"""Numbers of the whole library on fixed data, to be the same after a rewrite.

``python tests/golden/numbers.py`` computes everything and compares it with ``numbers.json``: it
prints the differences and exits with 1 if there are any. ``--write`` writes the file, and ``--only
PREFIX`` restricts either to the keys with a prefix, such as ``metrics`` or ``target/visit``. The
package is called by ``adapter.py`` alone.

Integers, strings and booleans must agree exactly, other numbers up to the tolerance of their
section. Of a long vector the file keeps the number of values (of all, and of finite ones), their
sum and some at fixed positions, and of predictions the first 20; of a long list a hash of all, and
of ids the first 50.
"""

import sys
from enum import Enum
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    # This folder comes last: its numbers.py would hide that of the standard library.
    sys.path.append(sys.path.pop(0))

import argparse  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from functools import cache  # noqa: E402
from typing import NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

if __name__ == "__main__":
    import adapter
else:
    from tests.golden import adapter

FILE = HERE / "numbers.json"
LONG = 12  # values, beyond which a vector or a list is summarised
SHARES = [0.05, 0.2, 0.3, 0.6, 1.0]


class Tolerance(NamedTuple):
    relative: float
    absolute: float


METRICS = Tolerance(1e-9, 1e-9)
SCORES = Tolerance(1e-6, 1e-9)
# Scores differ in the last bit between processors, so that nearly tied ones may change places.
EVIDENCE = Tolerance(1e-5, 1e-7)
NETWORKS = Tolerance(1e-4, 1e-6)


class Section(NamedTuple):
    """A function that makes a nested dictionary, and how its numbers are compared."""

    compute: object
    tolerance: Tolerance
    fast: bool


SECTIONS = {}


def section(name, tolerance=METRICS, *, fast=False):
    def register(function):
        SECTIONS[name] = Section(function, tolerance, fast)
        return function

    return register


# --- data, made by numpy alone --------------------------------------------------------------------


def made_up(seed, n, *, base=0.2, effect=0.06, group_size=0, whole=True, chances=False, n_arms=1):
    """A raw table of a made-up trial; the effect is larger for the young and in Oslo.

    ``group_size``: mean number of rows of a household, which gets one arm if ``whole``.
    ``chances``: those of treatment differ, by town.
    """
    rng = np.random.default_rng(seed)
    household = rng.integers(0, max(n // group_size, 1), n) if group_size else np.arange(n)
    age = rng.normal(45, 15, n).clip(18, 90).round(1)
    visits = rng.poisson(3, n)
    town = rng.choice(["Oslo", "Rome", "Lima", "it's"], n, p=[0.4, 0.3, 0.2, 0.1])
    member = rng.random(n) < 0.4
    joined = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D")
    chance = np.full(n, 0.5)
    if chances:
        chance = np.select([town == "Oslo", town == "Rome"], [0.3, 0.5], 0.7)
    draw = rng.random(n)
    if group_size and whole:
        draw = rng.random(household.max() + 1)[household]
    treated = draw < chance
    arm = np.where(treated, 1 + (draw * 1e6).astype(int) % n_arms, 0)
    shared = 0.05 * rng.normal(size=household.max() + 1)[household] if group_size else 0.0
    helped = effect * (1 + (town == "Oslo") - (age - 45) / 30)
    strength = np.array([0.0, 1.0, 0.6])[arm]
    rate = np.clip(base * (1 + 0.1 * (visits - 3)) + shared + helped * strength, 0, 1)
    y = (rng.random(n) < rate).astype(float)
    table = pd.DataFrame(
        {
            "person": [f"p{k:06d}" for k in rng.permutation(n)],
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "visits": visits,
            "town": np.where(rng.random(n) < 0.03, None, town),
            "member": member,
            "joined": joined,
            "mail": np.array(["none", "letter", "phone"])[arm],
            "y": y,
        }
    )
    if group_size:
        table["household"] = [f"h{k:05d}" for k in household]
    if chances:
        table["chance"] = chance
    return table


class Rows(NamedTuple):
    """Rows as arrays, with two scores (the second has ties) and what a metric may also take."""

    y: np.ndarray
    treatment: np.ndarray
    score: np.ndarray
    tied: np.ndarray
    options: dict


@cache
def rows(name):
    """Rows of Hillstrom's trial or of a made-up one."""
    if name in ("visit", "spend"):
        step = 9 if name == "visit" else 2  # few spend anything
        X, y, treatment = (own[::step] for own in adapter.hillstrom(outcome=name))
        history = X["history"].to_numpy()
        score = np.log1p(history) + 2 * X["womens"].to_numpy() - X["newbie"].to_numpy()
        tied = X["womens"].to_numpy() + X["newbie"].to_numpy()
        return Rows(y, treatment, score, tied, {"treatment": treatment})
    table = tables(name)
    score = -table["age"].fillna(45.0).to_numpy() / 30 + (table["town"] == "Oslo").to_numpy()
    treatment = (table["mail"] != "none").to_numpy().astype(int)
    options = {"treatment": treatment}
    if "household" in table:
        options["groups"] = table["household"].to_numpy()
    if "chance" in table:
        options["propensity"] = table["chance"].to_numpy()
    if name == "weights":
        weights = np.random.default_rng(5).gamma(2, 1, len(table)).round(3)
        options["sample_weight"] = weights
    return Rows(table["y"].to_numpy(), treatment, score, score.round(), options)


@cache
def tables(name):
    """Raw tables, one for each kind of trial."""
    if name in ("visit", "spend"):
        return hillstrom_table("womens", name, 6 if name == "visit" else 3)
    if name == "all spend":
        return hillstrom_table("womens", "spend", 1)
    if name == "arms":
        return hillstrom_table("all", "visit", 9)
    if name == "lower":
        table = made_up(6, 4_000, base=0.3, effect=-0.06)
        lost = np.random.default_rng(7).random(len(table)) < 0.02
        return table.assign(y=table["y"].where(~lost))
    return {
        "rare": lambda: made_up(1, 9_000, base=0.01, effect=0.004),
        "households": lambda: made_up(2, 4_500, group_size=3),
        "mixed groups": lambda: made_up(3, 4_500, group_size=3, whole=False),
        "chances": lambda: made_up(4, 5_000, chances=True),
        "weights": lambda: made_up(5, 3_000),
        "small": lambda: made_up(8, 60),
        "arm chances": lambda: arm_chances(made_up(9, 6_000, chances=True, n_arms=2)),
    }[name]()


def hillstrom_table(arm, outcome, step):
    X, y, treatment = adapter.hillstrom(arm=arm, outcome=outcome, encoding="raw")
    table = X.assign(**{outcome: y, "segment": treatment, "person": np.arange(len(y)) + 1_000})
    return table.iloc[::step].reset_index(drop=True)


def arm_chances(table):
    """Half of the treated get either arm."""
    half = table.pop("chance") / 2
    return table.assign(**{"chance letter": half, "chance phone": half})


def people(name):
    """Some people to score, whose rows no model has seen: features and ids alone."""
    if name in ("visit", "spend", "all spend", "arms"):
        own = hillstrom_table("all", "visit", 1).iloc[4::50].reset_index(drop=True)
        return own.drop(columns=["visit", "segment"])
    fresh = made_up(99, 1_200)
    return fresh.drop(columns=["mail", "y"])


BOTH = ("visit", "spend", "rare", "households", "mixed groups", "chances", "weights")


# --- metrics --------------------------------------------------------------------------------------


SEPARATE = {"ranking": "separate"}


@section("metrics", fast=True)
def metrics():
    found = {}
    for name in BOTH:
        own = rows(name)
        y, options = own.y, own.options
        part = found[name] = {}
        for label, score in (("score", own.score), ("tied", own.tied), ("constant", 0 * own.score)):
            part[f"auuc joint {label}"] = adapter.metric("auuc_score", y, score, **options)
            part[f"auuc separate {label}"] = adapter.metric(
                "auuc_score", y, score, **SEPARATE, **options
            )
            part[f"qini {label}"] = adapter.metric("qini_score", y, score, **options)
            part[f"at {label}"] = adapter.metric("uplift_at_k", y, score, share=SHARES, **options)
        part["at separate"] = adapter.metric(
            "uplift_at_k", y, own.tied, share=SHARES, **SEPARATE, **options
        )
        model = np.full(len(y), y.mean()) + 0.01 * np.sin(np.arange(len(y)))
        part["auuc adjusted"] = adapter.metric(
            "auuc_score", y, own.score, outcome_model=model, **options
        )
    own = rows("weights")
    copies = own.options | {"sample_weight": np.ceil(own.options["sample_weight"])}
    found["weights"]["auuc copies"] = adapter.metric("auuc_score", own.y, own.score, **copies)
    found["pehe"] = adapter.metric("pehe", own.score, own.tied)
    return found


@section("inference", fast=True)
def inference():
    found = {}
    for name in (*BOTH, "small"):
        own = rows(name)
        found[name] = {
            label: adapter.metric("auuc_inference", own.y, score, **how, **own.options)
            for label, score, how in (
                ("score", own.score, {}),
                ("tied", own.tied, {}),
                ("separate", own.score, SEPARATE),
                ("level .8", own.score, {"level": 0.8}),
            )
        } | {
            label: adapter.metric("auuc_difference", own.y, own.score, own.tied, **how)
            for label, how in (
                ("difference", own.options),
                ("difference separate", SEPARATE | own.options),
            )
        }
    own = rows("visit")
    adjusted = own.options | {"outcome_model": np.full(len(own.y), own.y.mean())}
    found["visit"]["adjusted"] = adapter.metric("auuc_inference", own.y, own.score, **adjusted)
    found["visit"]["binned"] = adapter.binned(own.y, own.score, own.treatment, 200)
    return found


@section("curves", fast=True)
def curves():
    found = {}
    for name in BOTH:
        own = rows(name)
        y, options = own.y, own.options
        separate = SEPARATE | options
        found[name] = {
            "curve": adapter.metric("uplift_curve", y, own.score, **options),
            "curve tied": adapter.metric("uplift_curve", y, own.tied, **options),
            "curve separate": adapter.metric("uplift_curve", y, own.tied, **separate),
            "qini": adapter.metric("qini_curve", y, own.tied, **options),
            "band": adapter.metric("uplift_band", y, own.score, shares=SHARES, **options),
            "band tied": adapter.metric("uplift_band", y, own.tied, shares=SHARES, **separate),
        }
    own = rows("visit")
    found["visit"]["band default"] = adapter.metric("uplift_band", own.y, own.score, **own.options)
    return found


@section("deciles", fast=True)
def deciles():
    found = {}
    for name in BOTH:
        own = rows(name)
        found[name] = adapter.metric("uplift_by_decile", own.y, own.score, **own.options)
        found[name]["tied"] = adapter.metric(
            "uplift_by_decile", own.y, own.tied, bins=4, **own.options
        )
    return found


@section("risk", fast=True)
def risk():
    found = {}
    for name in BOTH:
        own = rows(name)
        sign = own.score - np.median(own.score)
        found[name] = {
            label: adapter.metric(function, own.y, score, share=share, **own.options)
            for label, function, score, share in (
                ("above zero", "policy_risk", sign, None),
                ("shares", "policy_risk", own.tied, SHARES),
                ("inference", "policy_risk_inference", own.score, 0.3),
                ("inference zero", "policy_risk_inference", sign, None),
                ("inference shares", "policy_risk_inference", own.score, SHARES),
            )
        }
    return found


@section("conventions", fast=True)
def conventions():
    found = {}
    for name in ("visit", "spend", "rare", "small"):
        own = rows(name)
        found[name] = adapter.conventions(own.y, own.score, own.treatment)
        found[f"{name} tied"] = adapter.conventions(own.y, own.tied, own.treatment)
    return found


def three_arms():
    """Rows of three arms with made-up uplifts of two of them."""
    X, y, arm = (own[::11] for own in adapter.hillstrom(arm="all"))
    womens, mens = X["womens"].to_numpy(), X["mens"].to_numpy()
    noise = np.random.default_rng(0).normal(0, 0.01, (len(y), 2))
    return y, arm, np.column_stack([0.04 + 0.03 * mens, 0.02 + 0.05 * womens]) + noise


@section("budget")
def budget():
    y, arm, uplift = three_arms()
    money = [0.0, 0.01, 0.03, 0.06, 0.1]
    how = {"control": "No E-Mail", "cost": [0.1, 0.12], "budget": money}
    weights = np.random.default_rng(1).gamma(2, 1, len(y)).round(3)
    households = np.arange(len(y)) // 2
    other = uplift[:, ::-1]
    return {
        "curve": adapter.budget_curve(y, uplift, arm, **how),
        "curve weights": adapter.budget_curve(y, uplift, arm, sample_weight=weights, **how),
        "curve groups": adapter.budget_curve(y, uplift, arm, groups=households, **how),
        "curve propensity": adapter.budget_curve(
            y, uplift, arm, propensity=np.full((len(y), 3), 1 / 3), **how
        ),
        "random": adapter.policy_difference(y, uplift, None, arm, **how),
        "difference": adapter.policy_difference(y, uplift, other, arm, **how),
    }


# --- certificates ---------------------------------------------------------------------------------


def chunks(own, n_chunks=4):
    """Rows in chunks, the first without scores; and which rows are in each."""
    parts = [np.arange(k, len(own.y), n_chunks) for k in range(n_chunks)]
    treated = own.treatment.astype(bool)
    return [
        (own.y[part], own.score[part] if k else None, treated[part]) for k, part in enumerate(parts)
    ], parts


@section("certificates", fast=True)
def certificates():
    own = rows("weights")  # few rows, without their weights
    y, s, t = own.y[:1_500], own.score[:1_500], own.treatment[:1_500]
    of, tied = {"y": y, "treatment": t}, own.tied[:1_500]
    counts = [float(np.sum((t == arm) & (y == value))) for arm in (1, 0) for value in (1, 0)]
    copies = np.ceil(own.options["sample_weight"][:1_500])
    half, gap = {"treatment": t, "norm": 0.5, "radius": 1.0}, {"norm": 0.3, "radius": 1.5}
    twice = {"treatment": t, "norm": 1.0, "radius": 2.0}
    certified = adapter.certified
    return {
        "default": certified("certify", s, **of),
        "tied": certified("certify", tied, **of),
        "joint": certified("certify", s, joint=True, upper=True, **of),
        "upper": certified("certify", s, upper=True, **of),
        "fixed": certified("certify", s, method="betting-fixed", **of),
        "asymptotic": certified("certify", s, method="asymptotic", **of),
        "candidates": certified("certify", s, n_candidates=3, **of),
        "folds": certified("certify", s, folds=np.arange(len(y)) % 3, **of),
        "thresholds": certified("certify_thresholds", s, thresholds=[-1.5, -1.0, -0.5], **of),
        "difference": certified("certify_difference", s, tied, **of),
        "paper": certified("paper_bound", y, s, **half),
        "paper printed": certified("paper_bound", y, s, control_count="printed", **half),
        "paper weights": certified("paper_bound", y, s, sample_weight=copies, **twice),
        "paper gap": certified("paper_gap", *counts, **gap),
        "paper gap of 1 per cent": certified("paper_gap", 80, 3_900, 50, 3_950, **gap),
    }


@section("certificates of trials")
def certificates_of_trials():
    found = {}
    for name in ("visit", "rare", "households", "chances", "spend"):
        own = rows(name)
        y, t = own.y, own.treatment
        more = {"outcome_range": (0.0, 500.0)} if name == "spend" else {}
        options = {"y": y, **own.options, **more}
        part = found[name] = {"default": adapter.certified("certify", own.score, **options)}
        options |= {"upper": True, "method": "betting-fixed"}
        part["upper"] = adapter.certified("certify", own.tied, **options)
        pieces, places = chunks(own)
        if name == "households":
            codes = np.unique(own.options["groups"], return_inverse=True)[1]
            treated = t.astype(bool)
            places = [np.flatnonzero(codes % 4 == k) for k in range(4)]
            pieces = [(y[p], own.score[p] if k else None, treated[p]) for k, p in enumerate(places)]
        by_chunk = {
            key: [own.options[key][p] for p in places]
            for key in ("groups", "propensity")
            if key in options
        }
        part["progressive"] = adapter.progressive(pieces, **by_chunk, **more)
        part["progressive joint"] = adapter.progressive(
            pieces, joint=True, n_candidates=2, **by_chunk, **more
        )
        if not by_chunk:
            part["shares"] = adapter.certified(
                "certify_shares", pieces, shares=[0.1, 0.3, 0.5, 1.0], **more
            )
    own = rows("households")
    found["households"]["thresholds"] = adapter.certified(
        "certify_thresholds", own.score, y=own.y, thresholds=[-1.0, 0.0], **own.options
    )
    found["policy"] = policies()
    found["strata"] = strata()
    found["anytime"] = anytime()
    return found


def policies():
    """Certificates of a choice of arms, at a share of the people and at a budget."""
    y, arm, uplift = three_arms()
    got = np.select([arm == "Mens E-Mail", arm == "Womens E-Mail"], [1, 2], 0)
    best = uplift.argmax(axis=1) + 1
    first = np.arange(len(y)) % 10 == 0
    found = {}
    for share in (0.3, 1.0):
        cut = np.quantile(uplift.max(axis=1), 1 - share)
        chosen = np.where(uplift.max(axis=1) >= cut, best, 0)
        parts = [(y[first], None, got[first]), (y[~first], chosen[~first], got[~first])]
        found[f"share {share:g}"] = adapter.certified(
            "certify_policy", parts, n_arms=2, treated_share=share, value=2.0, cost=[0.1, 0.12]
        )
    chance = np.full((len(y), 3), 1 / 3)
    found["chances"] = adapter.certified(
        "certify_policy",
        parts,
        n_arms=2,
        propensity=[chance[first], chance[~first]],
        n_candidates=2,
    )
    return found


def strata():
    own = rows("chances")
    stratum = np.unique(own.options["propensity"], return_inverse=True)[1]
    sums = [[1 / 3, 1 / 3, 1 / 3], [-1.0, 0.0, 1.0]]
    return adapter.certified(
        "strata_bounds", own.y, treatment=own.treatment, stratum=stratum, weights=sums
    )


def anytime():
    found = {}
    for name, least in (("visit", None), ("chances", 0.3)):
        own = rows(name)
        n, chance = len(own.y), own.options.get("propensity")
        batches = [slice(0, n // 2), slice(n // 2, n)]
        found[name] = adapter.anytime(
            own.y, own.score, own.treatment.astype(bool), batches, least=least, chance=chance
        )
    return found


# --- estimators -----------------------------------------------------------------------------------

ROUNDS = {"base_rounds": (0, 20), "effect_rounds": (0, 20), "n_folds": 2, "random_state": 0}
TREES = {"n_trees": 20, "learning_rate": 0.1, "random_state": 0}
ESTIMATORS = {
    "AUUCMax": {"random_state": 0},
    "BoostedEffect": ROUNDS,
    "ClassTransformation": {},
    "DependentDataRepresentation": {},
    "MinimaxLinear": {"random_state": 0},
    "ResponseModel": {},
    "SVMDifferentialPrediction": {},
    "SharedDataRepresentation": {},
    "ShrunkInteractions": {"random_state": 0},
    "TransformedOutcome": {},
    "TwoModels": {},
    "UpliftEnsemble": {"random_state": 0},
    "UpliftLambdaMART": TREES | {"early_stopping": None},
}
LAYERS = {"max_epochs": 4, "learning_rate": 0.01, "shared": (8,), "heads": (8,), "random_state": 0}
GENERATOR = {"generator_epochs": 2, "max_epochs": 4, "learning_rate": 0.01, "hidden": 8}
TORCH = {"TARNet": LAYERS, "CFRNet": LAYERS, "GANITE": GENERATOR | {"random_state": 0}}
OTHERS = ("ScoreOnly",)  # recorded by a function of its own
VARIANTS = {
    "ClassTransformation balance none": ("ClassTransformation", {"balance": "none"}),
    "DependentDataRepresentation treatment first": (
        "DependentDataRepresentation", {"order": "treatment-first"},
    ),
    "UpliftLambdaMART early": ("UpliftLambdaMART", TREES | {"patience": 5}),
    "UpliftLambdaMART ndcg": (
        "UpliftLambdaMART", TREES | {"gain": "ndcg", "early_stopping": None},
    ),
}  # fmt: skip
MONEY = (
    "AUUCMax", "BoostedEffect", "ResponseModel", "ShrunkInteractions", "TransformedOutcome",
    "TwoModels",
)  # fmt: skip
SEARCHES = {
    "cv": {},
    "bound": {"selection": "bound"},
    "certificate": {"selection": "certificate"},
    "norm": {"selection": None, "norm": 0.5},
    "s_log": {"surrogate": "s_log", "grid": "paper"},
    "uniform": {"weights": "uniform", "scale": "column-l2"},
    "sigmoid": {"surrogate": "sigmoid", "selection": None, "norm": 1.0},
}


@cache
def encoded(outcome, arm="womens"):
    """Rows to learn from, and others: X, y and treatment of each."""
    X, y, t = adapter.hillstrom(arm=arm, outcome=outcome)
    return (X[::12], y[::12], t[::12]), (X[5::100], y[5::100], t[5::100])


@section("estimators", SCORES)
def all_estimators():
    learn, (new, new_y, new_t) = encoded("visit")
    weights = np.random.default_rng(11).integers(1, 4, len(learn[1])).astype(float)
    found = {}
    for name, parameters in ESTIMATORS.items():
        found[name] = {"visit": adapter.fit_predict(name, *learn, new, **parameters)}
        weighted = adapter.fit_predict(name, *learn, new, weights=weights, **parameters)
        found[name]["weights"] = weighted.tolist()
    for name, (base, parameters) in VARIANTS.items():
        found[name] = adapter.fit_predict(base, *learn, new, **parameters).tolist()
    money, _ = encoded("spend")
    for name in MONEY:
        spent = adapter.fit_predict(name, *money, new, **ESTIMATORS[name])
        found[name]["spend"] = spent.tolist()
    found["searches"] = {
        name: adapter.fit_auucmax(*learn, new, new_y, new_t, random_state=0, **parameters)
        for name, parameters in SEARCHES.items()
    }
    found["ScoreOnly"] = adapter.score_only(*learn, "history", new)
    return found


@section("networks", NETWORKS)
def networks():
    learn, (new, *_) = encoded("visit")
    return {
        name: adapter.fit_predict(name, *learn, new, **parameters)
        for name, parameters in TORCH.items()
    }


# --- the check ------------------------------------------------------------------------------------


@section("check")
def check():
    found = {}
    X, y, t = (own[::9] for own in adapter.hillstrom(encoding="raw"))
    found["visit"] = adapter.check(X, y, t, expected_share=0.5)
    found["wrong share"] = adapter.check(X, y, t, expected_share=0.45)
    biased = X["recency"].to_numpy() + np.random.default_rng(0).normal(0, 3, len(y)) > 6
    found["not randomised"] = adapter.check(X, y, biased.astype(int))
    leak = X.assign(opened=y + np.random.default_rng(1).normal(0, 0.01, len(y)))
    found["leak"] = adapter.check(leak, y, t)
    found["leak ignored"] = adapter.check(leak, y, t, ignore=["opened"])
    lost = {"control": (60, 2_500), "treated": (65, 2_500)}
    found["lost evenly"] = adapter.check(X, y, t, missing_outcomes=lost)
    lost = {"control": (60, 2_500), "treated": (165, 2_500)}
    found["lost unevenly"] = adapter.check(X, y, t, missing_outcomes=lost)
    X, y, t = (own[::9] for own in adapter.hillstrom(arm="all", encoding="raw"))
    found["arms"] = adapter.check(X, y, t, control="No E-Mail", expected_share=[1 / 3] * 3)
    for name in ("rare", "households", "mixed groups", "chances"):
        table, options = tables(name), {}
        features = table[["age", "visits", "town", "member", "joined"]]
        treated = (table["mail"] != "none").astype(int).to_numpy()
        if "household" in table:
            options["groups"] = table["household"].to_numpy()
        if "chance" in table:
            found["chances left out"] = adapter.check(features, table["y"].to_numpy(), treated)
            options["propensity"] = table["chance"].to_numpy()
        found[name] = adapter.check(features, table["y"].to_numpy(), treated, **options)
    return found


# --- models of raw tables -------------------------------------------------------------------------

MADE_UP = {"treatment": "mail", "outcome": "y", "control": "none", "id": "person"}
GROUPED = MADE_UP | {"groups": "household"}
HILLSTROM = {"treatment": "segment", "outcome": "visit", "id": "person"}
SPEND = HILLSTROM | {"outcome": "spend", "outcome_range": (0.0, 500.0)}
FITS = {
    "visit": ("visit", "auto", HILLSTROM),
    "visit held out": ("visit", "auucmax", HILLSTROM | {"hold_out": 0.3}),
    "spend": ("spend", "auto", SPEND),
    "all spend": ("all spend", "auucmax", SPEND),
    "rare": ("rare", "auucmax", MADE_UP),
    "households": ("households", "tm", GROUPED),
    "mixed groups": ("mixed groups", "shrunk", GROUPED),
    "chances": ("chances", "tm", MADE_UP | {"propensity": "chance"}),
    "lower": ("lower", "tm", MADE_UP | {"lower_is_better": True, "drop_missing_outcomes": True}),
}
COSTS = {"Mens E-Mail": 0.1, "Womens E-Mail": 0.12}
BY_ARM = {"letter": "chance letter", "phone": "chance phone"}
ARM_FITS = {
    "arms": ("arms", "auto", HILLSTROM | {"control": "No E-Mail", "cost": COSTS, "budget": 0.05}),
    "arm chances": ("arm chances", "tm", MADE_UP | {"propensity": BY_ARM}),
}


@cache
def fitted(name):
    table, model, columns = FITS[name]
    return adapter.fit_model(tables(table), model=model, **columns)


@cache
def fitted_arms(name):
    table, model, columns = ARM_FITS[name]
    return adapter.fit_arms(tables(table), model=model, **columns)


@section("evidence", EVIDENCE)
def evidence():
    found = {name: adapter.evidence_numbers(fitted(name)) for name in FITS}
    found["households"]["rivals added"] = dict(
        zip(
            ("cvt", "mom"),
            adapter.with_rivals(fitted("households"), tables("households"), ["cvt", "mom"]),
            strict=True,
        )
    )
    fresh = hillstrom_table("womens", "visit", 1).iloc[3::11].reset_index(drop=True)
    fresh = fresh[~fresh["person"].isin(tables("visit")["person"])]
    found["visit on new rows"] = adapter.judge(fitted("visit"), fresh)
    return found


@section("evidence of arms", EVIDENCE)
def evidence_of_arms():
    found = {name: adapter.arms_numbers(fitted_arms(name)) for name in ARM_FITS}
    fresh = hillstrom_table("all", "visit", 1).iloc[4::13].reset_index(drop=True)
    fresh = fresh[~fresh["person"].isin(tables("arms")["person"])]
    found["arms on new rows"] = adapter.judge_arms(fitted_arms("arms"), fresh)
    return found


@section("scores", SCORES)
def scores():
    found = {
        name: adapter.score_numbers(fitted(name), people(table))
        for name, (table, _, _) in FITS.items()
    }
    for name, (table, _, _) in ARM_FITS.items():
        found[name] = adapter.arms_score_numbers(fitted_arms(name), people(table))
    loaded = adapter.saved_and_loaded(fitted("visit"))
    found["visit"]["predict from a file"] = adapter.score_numbers(loaded, people("visit"))[
        "predict"
    ]
    return found


@section("sql", SCORES)
def sql():
    found = {
        name: adapter.sql_scores(fitted(name), people(FITS[name][0]), "person")
        for name in ("visit", "visit held out", "spend", "rare", "chances", "mixed groups")
    }
    found["arms"] = adapter.sql_arms(
        fitted_arms("arms"), people("arms"), "person", COSTS.values(), 2.0
    )
    return found


@section("calibration", SCORES)
def calibration():
    found = {}
    for name in BOTH:
        own = rows(name)
        options = own.options
        half = np.arange(len(own.y)) % 2 == 0
        if "groups" in options:  # a household is in one half
            half = np.unique(options["groups"], return_inverse=True)[1] % 2 == 0
        options = {key: value[half] for key, value in options.items()}
        for label, score in (("score", own.score), ("tied", own.tied)):
            found[f"{name} {label}"] = adapter.calibrate(
                own.y[half], score[half], own.y[~half], score[~half], own.treatment[~half],
                **options,
            )  # fmt: skip
    return found


# --- targeting ------------------------------------------------------------------------------------


@section("target plans", SCORES)
def target_plans():
    own, found = rows("visit"), {}
    score = own.tied[:400]
    cost = 0.5 + (np.arange(400) % 5) / 4
    found["selections"] = {
        "share": adapter.selection("share", score, 0.3, cost=2.0),
        "budget": adapter.selection("budget", own.score[:400], 100.0, cost=cost),
        "worth": adapter.selection("worth", score / 10, 20.0, cost=cost),
    }
    _, _, uplift = three_arms()
    uplift, costs = uplift[:1_500] - 0.03, [0.1, 0.12]
    allowed = np.ones(uplift.shape, bool)
    allowed[::3, 0] = False
    found["arms"] = {
        "budget": adapter.choose_arms(uplift, cost=costs, budget=40.0),
        "value": adapter.choose_arms(uplift, cost=costs, value=3.0),
        "limits": adapter.choose_arms(
            uplift, cost=costs, budget=60.0, at_most=[200, 300], at_least=[50, 0]
        ),
        "allowed": adapter.choose_arms(uplift, cost=costs, budget=40.0, allowed=allowed),
        "people": adapter.choose_arms(uplift, budget=300.0),
    }
    return found


def without_people(found):
    """A list without what it has in common with others of the same model."""
    common = ("ids", "scores", "uplifts", "ranks")
    return {name: own for name, own in found.items() if name not in common}


@section("target", SCORES)
def target():
    found = {}
    for name, (table, _, _) in FITS.items():
        some = people(table)
        model = fitted(name)
        value = 1.0 if "spend" in name else 20.0
        found[name] = {
            "share": adapter.target_list(model, some, share=0.3, cost=0.1, value=value),
            "budget": without_people(
                adapter.target_list(model, some, budget=25.0, cost=0.1, value=value)
            ),
        }
    model, some = fitted("visit"), people("visit")
    found["visit"]["profit"] = adapter.target_list(model, some, cost=0.1, value=2.0)
    found["visit"]["exclude"] = adapter.target_list(
        model, some, share=0.2, exclude=[*some["person"][:50], -1]
    )
    found["visit"]["own people"] = adapter.target_list(
        model, tables("visit"), share=0.3, cost=0.1, value=2.0
    )
    return found


@section("target of arms", SCORES)
def target_of_arms():
    model, some = fitted_arms("arms"), people("arms")
    some = some.assign(
        dear=0.05 + (np.arange(len(some)) % 7) / 50, plain=0.1, no=np.arange(len(some)) % 4 == 0
    )
    prices = {"Mens E-Mail": "dear", "Womens E-Mail": "plain"}
    found = {
        "share": adapter.arms_list(model, some, share=0.3),
        "budget": adapter.arms_list(model, some, budget=40.0, cost=COSTS),
        "budget and value": adapter.arms_list(model, some, budget=90.0, value=3.0, cost=COSTS),
        "value": adapter.arms_list(model, some, value=2.0, cost=COSTS),
        "at most": adapter.arms_list(
            model, some, budget=60.0, cost=COSTS, at_most={"Mens E-Mail": 200}
        ),
        "at most of a share": adapter.arms_list(
            model, some, share=0.5, at_most={"Mens E-Mail": 250}, at_least={"Womens E-Mail": 100}
        ),
        "cost columns": adapter.arms_list(model, some, budget=40.0, cost_column=prices),
        "forbid": adapter.arms_list(
            model, some, budget=40.0, cost=COSTS, forbid={"Mens E-Mail": "no"}
        ),
        "exclude": adapter.arms_list(model, some, share=0.3, exclude=list(some["person"][:30])),
    }
    chances = fitted_arms("arm chances")
    found["chances"] = adapter.arms_list(chances, people("arm chances"), share=0.4)
    return found


# --- before and after a trial ---------------------------------------------------------------------


@section("plan", fast=True)
def plan():
    usual = {"base_rate": 0.1, "effect": 0.03, "gain": 0.006}
    money = {"base_rate": 1.0, "effect": 0.3, "gain": 0.1, "outcome_sd": 12.0}
    past = adapter.past_rows(
        rows("households").y, groups=rows("households").options["groups"],
        score=rows("households").score,
    )  # fmt: skip
    return {
        "usual": adapter.plan_trial(**usual),
        "size": adapter.plan_trial(**usual, n_rows=20_000, power=0.9),
        "explained": adapter.plan_trial(
            base_rate=0.1, effect=0.03, effect_sd=0.04, explained=0.5, treated_share=0.7
        ),
        "cross-fitted": adapter.plan_trial(**usual, cross_fitted=True),
        "money": adapter.plan_trial(**money, outcome_range=(0.0, 500.0)),
        "money without a range": adapter.plan_trial(**money),
        "arms": adapter.plan_trial(**usual, n_arms=3, treated_share=0.75),
        "past": past,
        "households": adapter.plan_trial(**(past | {"effect": 0.03, "gain": 0.006})),
    }


@section("plan of a model")
def plan_of_a_model():
    return {
        "arms": adapter.plan_arms(fitted_arms("arms")),
        "size": adapter.plan_arms(fitted_arms("arms"), n_rows=30_000),
    }


@section("assign", SCORES)
def assign():
    some = people("rare").assign(household=lambda own: np.arange(len(own)) // 3)
    how = {"id": "person", "key": "golden"}
    arms = {"control": 0.2, "mail": 0.5, "phone": 0.3}
    found = {
        "two": adapter.assign(some, arms="control=.5,mail=.5", **how)[0],
        "three": adapter.assign(some, arms=arms, **how)[0],
        "groups": adapter.assign(some, arms="control=.5,mail=.5", groups="household", **how)[0],
        "strata": adapter.assign(some, arms="control=1/3,mail=2/3", strata=["member"], **how)[0],
        "blocked": adapter.assign(some, arms=arms, blocked=True, **how)[0],
        "model": adapter.assign(
            people("visit"), model=fitted("visit"), share=0.3, explore=0.2, **how
        )[0],
        "model of arms": adapter.assign(
            people("arms"), model=fitted_arms("arms"), share=0.5, explore=0.2, **how
        )[0],
    }
    _, before = adapter.assign(some[:800], arms="control=.5,mail=.5", blocked=True, **how)
    found["more people"] = adapter.assign(
        some, arms="control=.5,mail=.5", blocked=True, before=before, **how
    )[0]
    return found


@section("monitor")
def monitor():
    found = {}
    start = pd.Timestamp("2026-01-01")
    for name in ("visit", "spend", "chances", "households"):
        own = rows(name)
        n = len(own.y)
        day = np.arange(n) // 100
        if name == "households":  # everybody of a household enters on one day
            day = np.unique(own.options["groups"], return_inverse=True)[1] // 40
        table = pd.DataFrame(
            {
                "mail": own.treatment,
                "y": own.y,
                "sent": start + pd.to_timedelta(day, "D"),
                "person": np.arange(n),
                "score": own.score,
                "other": own.tied,
            }
        )
        named = {"treatment": "mail", "outcome": "y", "date": "sent", "id": "person"}
        named |= {"score_column": "score", "rival_column": "other", "window": "3d"}
        if name == "spend":
            named["outcome_range"] = (0.0, 500.0)
        if name == "chances":
            table["chance"] = own.options["propensity"]
            named |= {"propensity": "chance", "least_chance": 0.3}
        else:
            named["treated_share"] = 0.5
        if name == "households":
            table["household"] = own.options["groups"]
            named["groups"] = "household"
        looks = [(table, "2026-01-29"), (table, "2026-06-01")]
        found[name] = adapter.monitor(looks, **named)
    y, arm, uplift = three_arms()
    table = pd.DataFrame(
        {
            "arm": arm,
            "y": y,
            "sent": start + pd.to_timedelta(np.arange(len(y)) // 100, "D"),
            "person": np.arange(len(y)),
            "score": uplift[:, 1],
        }
    )
    named = {"treatment": "arm", "outcome": "y", "date": "sent", "id": "person"}
    looks = [(table, "2026-01-29"), (table, "2026-06-01")]
    found["arms"] = adapter.monitor(
        looks, score_column="score", window="3d", control="No E-Mail", **named
    )
    return found


def campaign(sent, labels, seed):
    """Outcomes of the people of a list: those who get an arm visit more often."""
    rng = np.random.default_rng(seed)
    rate = 0.1 + 0.06 * sent["arm"].isin(labels).to_numpy()
    return pd.DataFrame(
        {"person": sent["person"], "visit": (rng.random(len(sent)) < rate).astype(float)}
    )


@section("verify")
def verify():
    rng = np.random.default_rng(0)
    top = rng.random(6_000) < 0.3
    chance = np.where(top, 0.9, 0.1)
    mail = rng.random(6_000) < chance
    visit = (rng.random(6_000) < 0.2 + 0.1 * top * mail).astype(float)
    table = pd.DataFrame({"top": top, "chance": chance, "mail": mail * 1, "visit": visit})
    table["home"] = np.arange(6_000)
    names = {"chosen": "top", "treatment": "mail", "outcome": "visit"}
    amount = {"outcome": "spent", "outcome_range": (0.0, 100.0)}
    found = {
        "rows": adapter.verify(table, propensity="chance", **names),
        "no chances": adapter.verify(table, **names),
        "level .8": adapter.verify(table, propensity="chance", level=0.8, delta=0.1, **names),
        "lower": adapter.verify(table, propensity="chance", lower_is_better=True, **names),
        "groups": adapter.verify(
            table, propensity="chance", groups="home", largest_group=3, **names
        ),
        "spend": adapter.verify(
            table.assign(spent=visit * rng.gamma(2, 10, 6_000).clip(0, 100).round(2)),
            propensity="chance",
            **(names | amount),
        ),
    }
    some = hillstrom_table("all", "visit", 1).iloc[4::12].reset_index(drop=True)
    some = some[~some["person"].isin(tables("visit")["person"])].drop(columns=["visit", "segment"])
    how = {"id": "person", "key": "golden", "share": 0.3, "explore": 0.2}
    _, sent = adapter.assign(some, model=fitted("visit"), **how)
    treated = sent["arm"].unique().tolist()
    outcome = campaign(sent, [own for own in treated if own not in ("0", "No E-Mail")], 1)
    found["model"] = adapter.verify(
        some.merge(outcome, on="person"), people=sent, model=fitted("visit")
    )
    _, sent = adapter.assign(some, model=fitted_arms("arms"), **(how | {"share": 0.6}))
    outcome = campaign(sent, ["Mens E-Mail"], 2)
    found["arms"] = adapter.verify_arms(outcome, people=sent, model=fitted_arms("arms"))
    return found


# --- one flat dictionary --------------------------------------------------------------------------


def flat(values, prefix):
    """The values of nested dictionaries by their paths, long vectors summarised.

    The single values of a dictionary are one entry, whose key ends in ``*``: a list of names, each
    before its value.
    """
    found, single = {}, []
    for name, value in values.items():
        key = f"{prefix}/{name}"
        if isinstance(value, dict):
            found |= flat(value, key)
        elif not isinstance(value, list | tuple | np.ndarray):
            single += [name, rounded(adapter.plain(value))]
        else:
            is_ids = name == "ids" or prefix.endswith("/ids")
            found |= {f"{key}{end}": own for end, own in summarised(value, is_ids).items()}
    return (found | {f"{prefix}/*": single}) if single else found


def summarised(value, is_ids):
    """What is kept of a vector or a list, by what is added to its key.

    The key of a summary ends in ``sum``: how many values there are, how many of them are finite,
    their sum, and some at fixed positions. More of these are kept of predictions, which are arrays,
    than of curves, which are lists. The key of a hash, with how many values it is of, ends in
    ``sha256``.
    """
    is_prediction = isinstance(value, np.ndarray)
    value = adapter.plain(value)
    if any(isinstance(own, list) for own in value):
        value = [own for row in value for own in (row if isinstance(row, list) else [row])]
    value = [rounded(own) for own in value]
    if len(value) <= LONG:
        return {"": value}
    if all(own is None or isinstance(own, str | int) for own in value):
        digest = hashlib.sha256("\n".join(map(str, value)).encode()).hexdigest()[:32]
        return {" sha256": [len(value), digest]} | ({" first": value[:50]} if is_ids else {})
    known = [own for own in value if own is not None and math.isfinite(own)]
    places = np.linspace(0, len(value) - 1, 10 if is_prediction else 5).astype(int)
    found = [len(value), len(known), rounded(math.fsum(known)), *(value[k] for k in places)]
    return {" sum": found} | ({" first": value[:20]} if is_prediction else {})


def rounded(value):
    """Ten digits, which is more than any tolerance asks for."""
    if isinstance(value, Enum):
        value = value.value
    return float(f"{value:.10g}") if isinstance(value, float) else value


def computed(only="", on_section=lambda name, seconds: None):
    """All numbers whose keys begin with ``only``, by key."""
    found = {}
    for name, own in SECTIONS.items():
        if not f"{name}/".startswith(only) and not only.startswith(f"{name}/"):
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found |= flat(own.compute(), name)
        on_section(name, time.perf_counter() - begin)
    return {key: own for key, own in found.items() if key.startswith(only)}


def recorded(only=""):
    """The numbers of the file whose keys begin with ``only``."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    return {key: own for key, own in known.items() if key.startswith(only)}


def differences(found, known):
    """A line for each key that is missing or new, and for each value that is different."""
    lines = [f"missing: {key}" for key in known if key not in found]
    lines += [f"new: {key}" for key in found if key not in known]
    for key in sorted(found.keys() & known.keys()):
        tolerance = SECTIONS[key.partition("/")[0]].tolerance
        values = [own[key] if isinstance(own[key], list) else [own[key]] for own in (found, known)]
        if len(values[0]) != len(values[1]):
            lines.append(f"{key}: {len(values[0])} values, recorded {len(values[1])}")
            continue
        for place, (own, other) in enumerate(zip(*values, strict=True)):
            if not agree(own, other, tolerance):
                name = values[1][place - 1] if key.endswith("*") and place % 2 else f"[{place}]"
                lines.append(f"{key} {name}: {own!r}, recorded {other!r}")
    return lines


def agree(found, known, tolerance):
    """Whether a value is the recorded one: floats up to the tolerance, all else exactly."""
    if not isinstance(known, float) and not isinstance(found, float):
        return type(found) is type(known) and found == known
    if not {type(found), type(known)} <= {int, float}:
        return False
    if not (math.isfinite(found) and math.isfinite(known)):
        return str(float(found)) == str(float(known))
    return abs(found - known) <= max(tolerance.relative * abs(known), tolerance.absolute)


def written(values):
    """The text of the file: one entry a line, sorted."""
    text = json.JSONEncoder(separators=(",", ":")).encode
    lines = (f"{text(key)}: {text(values[key])}" for key in sorted(values))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the file")
    parser.add_argument("--only", default="", metavar="PREFIX", help="keys with this prefix alone")
    given = parser.parse_args()
    found = computed(
        given.only, lambda name, seconds: print(f"{seconds:6.1f} s  {name}", flush=True)
    )
    if given.write:
        kept = recorded() if FILE.exists() and given.only else {}
        kept = {key: own for key, own in kept.items() if not key.startswith(given.only)}
        FILE.write_text(written(kept | found), encoding="utf-8")
        print(f"{len(found):,} entries written, {FILE.stat().st_size / 1000:,.0f} kB")
        return 0
    lines = differences(found, recorded(given.only))
    print("\n".join([*lines, f"{len(found):,} entries, {len(lines):,} differences"]))
    return int(bool(lines))


if __name__ == "__main__":
    raise SystemExit(main())
