from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from auucmax.data.randomisation import check_randomisation, independent_rows, within_clusters
from auucmax.data.trial import Trial


def households(seed: int, n: int = 1_000, size: int = 3, *, by_row: bool = False) -> Trial:
    """Households with a feature of their own, one of each row, and one that may be missing."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(n), size)
    income, street = rng.normal(size=n), rng.choice(["north", "south", "east"], n)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.integers(20, 90, n))
    X = pd.DataFrame({"income": income[home], "street": street[home], "age": age[home]})
    X["own"] = rng.normal(size=n * size)
    treated = (rng.random(n * size if by_row else n) < 0.5).astype(int)
    treated = treated if by_row else treated[home]
    y = rng.random(n * size) < 0.2 + 0.1 * treated
    return Trial(X, y, treated, id=home)


# How treatment varies within clusters.


def slow_variation(codes: np.ndarray, treatment: np.ndarray) -> tuple[float, float, int, int]:
    """Cluster by cluster."""
    found, extra, repeated, mixed = 0.0, 0, 0, 0
    for code in np.unique(codes):
        mine = treatment[codes == code]
        counts = np.unique(mine, return_counts=True)[1]
        found += len(mine) - (counts**2).sum() / len(mine)
        extra += len(mine) - 1
        repeated += len(mine) > 1
        mixed += len(counts) > 1
    shares = np.unique(treatment, return_counts=True)[1] / len(treatment)
    return found, extra * (1 - (shares**2).sum()), repeated, mixed


@pytest.mark.parametrize("arms", [[0, 1], ["none", "mail", "call"]])
@pytest.mark.parametrize("n_clusters", [2, 30, 400])
def test_variation_equals_its_definition(arms: list, n_clusters: int) -> None:
    rng = np.random.default_rng(n_clusters)
    codes = rng.integers(n_clusters, size=200) * 2  # numbers that name no cluster do no harm
    treatment = rng.choice(np.array(arms), 200)
    assert within_clusters(codes, treatment) == pytest.approx(slow_variation(codes, treatment))


def test_variation_of_independent_rows_is_as_expected() -> None:
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        codes, treatment = rng.integers(60, size=200), rng.random(200) < 0.3
        variation = within_clusters(codes, treatment)
        ratios.append(variation.found / variation.expected)
    assert np.mean(ratios) == pytest.approx(1, abs=4 * np.std(ratios) / np.sqrt(300) + 0.005)
    by_cluster = within_clusters(codes, codes % 2)
    assert by_cluster.found == pytest.approx(0)
    assert by_cluster.mixed == 0


# Which rows are tested.


def test_one_row_of_each_cluster_is_drawn_at_random() -> None:
    trial = households(0, n=40)
    drawn = np.zeros(trial.n_rows)
    row = dataclasses.replace(trial, effect=np.arange(trial.n_rows))
    for seed in range(600):
        part, sentence = independent_rows(row, trial.id, np.random.default_rng(seed))
        assert part.id.tolist() == list(range(40))
        drawn[part.effect.astype(int)] += 1
    assert "one row of each of the 40 clusters is tested (of 120 rows)" in sentence
    assert abs(drawn - 200).max() < 4.5 * np.sqrt(600 * (1 / 3) * (2 / 3))


def test_all_rows_are_kept_when_treatment_varies_within_clusters() -> None:
    trial = households(1, by_row=True)
    report = check_randomisation(trial, groups=trial.id)
    assert report.n_rows == 3_000
    assert "treatment varies within clusters" in str(report)
    alone = check_randomisation(trial, groups=np.arange(3_000))
    assert alone.grouping == "each cluster has one row"
    assert alone.tests == report.tests


def test_a_few_wrong_records_do_not_bring_all_rows_back() -> None:
    trial = households(2)
    treatment = trial.treatment.copy()
    treatment[[0, 33, 99]] ^= 1
    report = check_randomisation(
        dataclasses.replace(trial, treatment=treatment), groups=trial.id, expected_share=0.5
    )
    assert report.ok
    assert report.n_rows == sum(report.counts.values()) == 1_000
    assert "(but in 3)" in report.grouping


@pytest.mark.parametrize("seed", range(6))
def test_a_fair_trial_of_households_passes_with_groups_alone(seed: int) -> None:
    trial = households(seed)
    report = check_randomisation(trial, groups=trial.id, expected_share=0.5)
    assert report.ok
    assert report.n_rows == 1_000
    assert {test.name for test in report.tests} == {
        *("sample ratio", "likelihood ratio", "classifier", "missing values")
    }
    assert "one row of each of the 1,000 clusters" in str(report)
    assert report.to_dict()["grouping"] == report.grouping
    blamed = check_randomisation(dataclasses.replace(trial, id=None))
    assert not blamed.ok
    assert any("pass groups" in advice for advice in blamed.advice)


def test_large_clusters_make_no_suspects() -> None:
    rng = np.random.default_rng(3)
    school = np.repeat(np.arange(60), 50)
    treatment, size = rng.permutation(np.arange(60) % 2)[school], rng.normal(size=60)[school]
    trial = Trial(pd.DataFrame({"size": size}), rng.random(3_000) < 0.3, treatment)
    assert [s.feature for s in check_randomisation(trial).suspects] == ["size"]
    assert check_randomisation(trial, groups=school).suspects == ()


def test_an_unfair_trial_of_households_is_found() -> None:
    trial = households(4)
    rng = np.random.default_rng(0)
    chance = 1 / (1 + np.exp(-0.4 * trial.X["income"].to_numpy()[::3]))
    treatment = np.repeat((rng.random(1_000) < chance).astype(int), 3)
    report = check_randomisation(Trial(trial.X, trial.y, treatment), groups=trial.id)
    assert "likelihood ratio" in {test.name for test in report.failures}
    assert not any("pass groups" in advice for advice in report.advice)


def test_groups_of_the_randomised_rows_and_of_several_arms() -> None:
    trial = households(5)
    randomised = trial.id % 4 > 0
    part = dataclasses.replace(trial, randomised=randomised)
    assert check_randomisation(part, groups=trial.id).n_rows == 750
    rng = np.random.default_rng(0)
    arm = rng.choice(["none", "mail", "call"], 1_000)[trial.id]
    several = Trial(trial.X, trial.y, arm, control="none")
    report = check_randomisation(several, groups=[f"home {k}" for k in trial.id])
    assert report.ok
    assert report.n_rows == 1_000


def test_the_draw_follows_the_seed() -> None:
    trial = households(6)
    one, again, other = (
        check_randomisation(trial, groups=trial.id, random_state=seed).to_dict()
        for seed in (1, np.random.default_rng(1), 2)
    )
    assert one == again != other


# The warning.


def test_an_id_that_treatment_follows_gives_a_warning() -> None:
    trial = households(7)
    with pytest.warns(UserWarning, match=r"1,000 ids of several rows, 100\.0% .*groups=trial\.id"):
        report = check_randomisation(trial)
    assert not report.ok
    treatment = trial.treatment.copy()
    treatment[:30:3] ^= 1
    with pytest.warns(UserWarning, match=r"99\.0%"):
        check_randomisation(dataclasses.replace(trial, treatment=treatment))


@pytest.mark.parametrize("kind", ["by row", "unique", "few repeats", "one rare arm", "groups"])
def test_no_warning_without_reason(kind: str) -> None:
    trial = households(8, by_row=True)
    groups = None
    if kind == "unique":
        trial = dataclasses.replace(trial, id=np.arange(3_000))
    if kind == "few repeats":
        rows = np.arange(3_000)
        rows[-8:] = rows[:8]
        trial = dataclasses.replace(trial.take(rows), id=rows)
    if kind == "one rare arm":
        # 1% treated: 97% of the households have one treatment for all, by chance.
        rare = np.random.default_rng(0).random(3_000) < 0.01
        trial = dataclasses.replace(trial, treatment=rare.astype(int))
    if kind == "groups":
        trial = households(8)
        groups = trial.id
    check_randomisation(trial, groups=groups)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(5), "groups should have as many rows as y, 60; got 5"),
        (np.zeros(60), "groups should name at least two clusters"),
        ([None, *range(59)], "groups should have no missing values, got 1"),
    ],
)
def test_groups_that_make_no_sense(groups: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_randomisation(households(0, n=20), groups=groups)  # type: ignore[arg-type]


@pytest.mark.gate
@pytest.mark.parametrize(("n", "size"), [(1_000, 3), (300, 8)])
def test_false_alarms_for_households_are_as_rare_as_promised(n: int, size: int) -> None:
    alarms, p_values = 0, []
    for seed in range(120):
        trial = households(seed, n, size)
        report = check_randomisation(trial, groups=trial.id, expected_share=0.5, alpha=0.05)
        alarms += not report.ok
        p_values += [(test.name, test.p_value) for test in report.tests]
    # 120 trials: three standard errors above 5% is 11%.
    assert alarms / 120 < 0.11
    for name, p in pd.DataFrame(p_values, columns=["name", "p"]).groupby("name")["p"]:
        assert np.mean(p < 0.1) < 0.1 + 3 * np.sqrt(0.09 / 120), name
