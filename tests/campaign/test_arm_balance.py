"""Counts of all who entered, and what they tell of treatment: fast, slow, exact."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from auucmax.campaign import arm_balance
from auucmax.campaign.arm_balance import TILTS, ArmBalance, kt_ratio, kt_ratio_slow, tilted

COLUMNS = [("age", None), ("town", 3), ("spent", None)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_the_ratio_of_counts_is_that_of_people_one_by_one(people):
    counts = np.zeros((4, 2), int)
    for own, treated in people:
        counts[own, int(treated)] += 1
    bins, arms = [own for own, _ in people], [treated for _, treated in people]
    assert kt_ratio(counts) == pytest.approx(kt_ratio_slow(bins, arms), abs=1e-9)


def people(n, seed=0):
    """Values of three columns, some of them missing, arms and chances."""
    rng = np.random.default_rng(seed)
    values = np.array(
        [rng.integers(18, 80, n), rng.integers(0, 4, n), np.maximum(rng.normal(0, 9, n), 0)]
    )
    values[rng.random(values.shape) < 0.1] = np.nan
    chance = rng.choice([0.2, 0.5, 0.7], n)
    return values, rng.random(n) < chance, chance


def counted(values, treated, chance, cuts=(), *, by_chance=False, day=None):
    balance = ArmBalance.of(COLUMNS, by_chance=by_chance)
    for part in np.split(np.arange(len(treated)), list(cuts)):
        balance.add(values[:, part], treated[part], chance[part])
        if day is not None:
            balance.add_days(day[part], treated[part], chance[part])
    return balance


@given(st.lists(st.integers(0, 700), max_size=5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_how_people_are_split_into_looks(cuts, by_chance):
    own = people(700)
    one, many = (counted(*own, part, by_chance=by_chance) for part in ((), sorted(cuts)))
    assert one.edges == many.edges
    np.testing.assert_array_equal(one.counts, many.counts)
    np.testing.assert_allclose(one.tilts, many.tilts, atol=1e-9)
    assert one.log_evidence == pytest.approx(many.log_evidence, abs=1e-9)
    assert (one.n_units, one.is_sound, many.is_sound) == ([700] * 3, True, True)


def slow_ratio(own, edges, is_number, treated, step):
    """The mean over cuts, from fine to coarse, of the ratio of one column, person by person."""
    body, found = list(edges[:-1]), []
    while True:
        bins = [len(body) + 1 if np.isnan(v) else sum(v > e for e in body) for v in own]
        if step is None:
            found.append(kt_ratio_slow(bins, treated.tolist()))
        else:
            sums = {b: sum(s for s, c in zip(step, bins, strict=True) if c == b) for b in set(bins)}
            found.append(sum(logsumexp([0, *s]) - np.log(len(s) + 1) for s in sums.values()))
        if not is_number or len(body) < 2:
            return logsumexp(found) - np.log(len(found))
        body = body[1::2]


@pytest.mark.parametrize("by_chance", [False, True])
def test_ratios_of_columns_are_those_of_people_one_by_one(by_chance):
    values, treated, chance = people(400)
    balance = counted(values, treated, chance, by_chance=by_chance)
    step = None
    if by_chance:
        step = np.outer(treated, TILTS) - np.log(1 + chance[:, None] * np.expm1(TILTS))
        one_bin = balance.tilts[: balance.n_bins[0]].sum(axis=0)
        np.testing.assert_allclose(one_bin, step.sum(axis=0))
    expected = [
        slow_ratio(own, edges, levels is None, treated, step)
        for own, edges, (_, levels) in zip(values, balance.edges, COLUMNS, strict=True)
    ]
    np.testing.assert_allclose(balance.log_ratios, [0, *expected], atol=1e-9)
    # Half of the capital is divided among them, and the days.
    assert balance.log_evidence == pytest.approx(logsumexp([0, *expected]) - np.log(8))


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=30), st.booleans())
def test_a_sum_over_days_is_the_ratio_whose_bins_are_days(sizes, by_chance):
    day = np.repeat(np.arange(len(sizes)), [n for n, _ in sizes])
    treated = np.repeat([own for _, own in sizes], [n for n, _ in sizes]).astype(bool)
    treated ^= np.arange(len(day)) % 3 == 0
    chance = 0.2 + 0.1 * (day % 6)
    balance = ArmBalance.of(COLUMNS, by_chance=by_chance)
    for part in np.split(np.arange(len(day)), np.flatnonzero(np.diff(day, prepend=-1) * day % 2)):
        balance.add_days(day[part], treated[part], chance[part])
    expected = kt_ratio_slow(day.tolist(), treated.tolist())
    if by_chance:
        step = np.outer(treated, TILTS) - np.log(1 + chance[:, None] * np.expm1(TILTS))
        sums = [step[day == own].sum(axis=0) for own in range(len(sizes))]
        expected = sum(logsumexp([0, *own]) - np.log(11) for own in sums)
    assert balance.log_ratios[0] == pytest.approx(expected, abs=1e-9)
    assert balance.totals.tolist() == [int((~treated).sum()), int(treated.sum())]


def test_arms_by_weekday_are_found_and_a_coin_is_not():
    day = np.repeat(np.arange(70), 40)
    coin = np.random.default_rng(0).random(len(day)) < 0.5
    for treated, is_found in ((day % 7 < 5, True), (day % 2 == 0, True), (coin, False)):
        balance = counted(people(2800)[0], treated, np.full(2800, 0.5), day=day)
        assert (balance.log_evidence > np.log(1e4)) == is_found
        assert balance.suspects(np.log(1e4)) == ["day of arrival"] or not is_found


def test_the_ratio_is_at_most_one_on_average_over_all_arms_that_chance_gives(monkeypatch):
    """Exactly, by all 2^8 ways to treat eight people; with columns cut by the first six of them."""
    monkeypatch.setattr(arm_balance, "UNITS", 6)
    values, shares = people(8, seed=3)[0], np.array([0.1, 0.5, 0.8])
    mean = np.zeros(3)
    day = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    for arms in product([False, True], repeat=8):
        balance = counted(values, np.array(arms), np.full(8, 0.5), day=day)
        mean += shares ** sum(arms) * (1 - shares) ** (8 - sum(arms)) * np.exp(balance.log_evidence)
    assert (mean > 0.01).all()
    assert (mean <= 0.5).all()  # the other half is for columns that come later


OTHERS = [("spent", None), ("town", 4), ("shop", 2)]  # age is gone, the shop is new


@pytest.mark.quick_cases("True")
@pytest.mark.parametrize("by_chance", [False, True])
def test_over_models_that_take_over_it_is_at_most_one_on_average(monkeypatch, by_chance):
    """Exactly, by all ways to treat nine people; who has won by then decides which model comes."""
    monkeypatch.setattr(arm_balance, "UNITS", 3)
    values, _, chance = people(9, seed=3)
    day, mean, share = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), 0.0, 0.3
    by = chance if by_chance else np.full(9, share)
    for arms in product([False, True], repeat=9):
        own = np.array(arms)
        balance = ArmBalance.of(COLUMNS, by_chance=by_chance)
        for part in np.split(np.arange(9), 3):
            balance.add(values[:, part], own[part], chance[part])
            balance.add_days(day[part], own[part], chance[part])
            if part[0] < 6 and own[part].sum() != 2:
                again = balance.names[0] == "spent"
                balance.hand_over(COLUMNS if again else OTHERS)
        mean += np.where(own, by, 1 - by).prod() * np.exp(balance.log_evidence)
    assert 0.01 < mean <= 1


def test_a_model_that_takes_over_changes_what_changed_alone():
    """Columns that stay are counted on, by whatever place; what others have won is not lost."""
    values, treated, chance = people(600)
    balance = counted(values, treated, chance)
    before, ratios = balance.capital.copy(), balance.log_ratios
    spent = balance.counts[-balance.n_bins[2] :].copy()
    balance.hand_over(OTHERS)
    assert (balance.names, balance.n_changes) == (("spent", "town", "shop"), 1)
    np.testing.assert_array_equal(balance.counts[: len(spent)], spent)
    assert balance.n_units == [600, 0, 0]
    share = np.log(1 / 4 / 2)  # of the first reserve, for the town and the shop
    expected = [
        before[0],
        before[3],
        np.logaddexp(before[2] + ratios[2], share),
        share,
        before[1] + ratios[1],  # of the age, kept
    ]
    np.testing.assert_allclose(balance.capital, expected)
    evidence = balance.log_evidence
    balance.add(values[[2, 1, 1]], treated, chance)
    balance.hand_over(OTHERS[::-1])  # nothing changes
    assert (balance.n_changes, balance.n_units) == (1, [600, 600, 1200])
    balance.hand_over([("spent", None)])  # fewer columns: nothing is released
    assert (balance.n_changes, balance.n_units) == (1, [1200])
    balance.hand_over([("spent", None), ("height", None)])
    assert balance.capital[2] == pytest.approx(np.log(1 / 8))
    assert balance.n_changes == 2
    assert balance.edges[1] is None
    assert balance.is_sound
    assert np.isfinite(evidence)


def slow_evidence(parts):
    """Column by column and person by person, over the models of some parts of the people."""
    columns, kept, n_changes, day_capital = {}, 0.0, -1, 0.5 / (len(parts[0][0]) + 1)
    days, arms_of_days = [], []
    for number, (own, people_here) in enumerate(parts):
        anew = [name for name, levels in own.items() if columns.get(name, [None])[0] != levels]
        n_changes += bool(anew)
        worth = {
            name: capital * np.exp(kt_ratio_slow(bins, arms))
            for name, (_, capital, bins, arms) in columns.items()
        }
        kept += sum(worth[name] for name in columns if name not in own)
        columns = {name: columns[name] for name in columns if name in own}
        for name in anew:
            share = 2.0 ** -(n_changes + 1) / (len(anew) + (number == 0))  # the days, at first
            columns[name] = [own[name], share + worth.get(name, 0.0), [], []]
        for values, arm in people_here:
            for name, (_, _, bins, arms) in columns.items():
                bins.append(values["abc".index(name)])
                arms.append(arm)
            days.append(number)
            arms_of_days.append(arm)
    found = [c * np.exp(kt_ratio_slow(bins, arms)) for _, c, bins, arms in columns.values()]
    return kept + sum(found) + day_capital * np.exp(kt_ratio_slow(days, arms_of_days))


MODELS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), min_size=1)
PEOPLE = st.lists(st.tuples(st.tuples(*[st.integers(0, 1)] * 3), st.booleans()), max_size=12)


@given(st.lists(st.tuples(MODELS, PEOPLE), min_size=1, max_size=4))
@settings(deadline=None)
def test_evidence_over_models_is_that_of_people_one_by_one(parts):
    balance = ArmBalance.of([*parts[0][0].items()])
    for number, (own, people_here) in enumerate(parts):
        if number:
            balance.hand_over([*own.items()])
        arms = np.array([arm for _, arm in people_here], bool)
        values = np.array([own for own, _ in people_here]).reshape(-1, 3).T
        chance = np.full(len(arms), 0.5)
        balance.add([values["abc".index(name)] for name in own], arms, chance)
        balance.add_days(np.full(len(arms), number), arms, chance)
    assert balance.log_evidence == pytest.approx(np.log(slow_evidence(parts)), abs=1e-9)
    assert balance.is_sound


def test_names_that_two_columns_have_are_told_apart_by_their_order():
    """A rival's score may be a column of the model, too."""
    columns = [("spent", None), ("town", 3), ("spent", None)]
    balance = ArmBalance.of(columns)
    values, treated, chance = people(600)
    balance.add([values[2], values[1], values[0]], treated, chance)
    counts, edges = balance.counts.copy(), balance.edges
    balance.hand_over(columns)
    np.testing.assert_array_equal(balance.counts, counts)
    assert (balance.edges, balance.n_changes) == (edges, 0)


def test_bins_may_be_chosen_by_the_arms_before():
    """As a new model chooses them: exactly, where the next bin is the one that looks worst."""
    shares, mean = np.array([0.1, 0.5, 0.8]), np.zeros(3)
    for arms in product([0, 1], repeat=8):
        counts = np.zeros((3, 2), int)
        for arm in arms:
            worst = int(np.abs(counts[:, 1] - counts[:, 0]).argmax())
            counts[worst if counts.sum() % 3 else counts.sum() // 3, arm] += 1
        mean += shares ** sum(arms) * (1 - shares) ** (8 - sum(arms)) * np.exp(kt_ratio(counts))
    assert (mean <= 1).all()


def test_by_known_chances_the_ratio_is_one_on_average(monkeypatch):
    monkeypatch.setattr(arm_balance, "UNITS", 4)
    values, _, chance = people(6, seed=3)
    mean = 0.0
    for arms in product([False, True], repeat=6):
        own = np.array(arms)
        balance = counted(values, own, chance, by_chance=True)
        balance.add_days(np.array([0, 0, 1, 1, 1, 2]), own, chance)
        mean += np.where(own, chance, 1 - chance).prod() * np.exp(balance.log_evidence)
    assert mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("own", "cuts"),
    [
        (np.r_[np.zeros(235), 1:6], [0.0]),  # zeros, and a few more
        (np.r_[np.ones(235), np.zeros(5)], [np.nextafter(1.0, 0), 1.0]),
        (np.full(240, 7.0), [np.nextafter(7.0, 0), 7.0]),
        (np.full(240, np.nan), [0.0]),
        (np.arange(240.0), [29, 59, 89, 119, 149, 179, 209]),
        (np.where(np.arange(240) % 2, 1e300, -1e300), [-3e38]),
    ],
)
def test_where_numbers_are_cut(own, cuts):
    balance = ArmBalance.of([("spent", None)])
    balance.add(own[None], np.arange(240) % 2 == 0, np.full(240, 0.5))
    assert balance.edges == ((*cuts, 3e38),)
    assert (balance.is_sound, balance.n_units) == (True, [240])
    assert np.isfinite(balance.log_evidence)


def test_before_there_are_enough_numbers_say_nothing():
    balance = counted(*people(239))
    assert (balance.n_units, balance.edges[0]) == ([0, 239, 0], None)
    # Not even that they have found nothing: those who wait may tell something by then.
    assert np.exp(balance.log_ratios[[1, 3]]).tolist() == [0, 0]
    assert balance.is_sound
    balance.add(*people(1, seed=1))
    assert (balance.n_units, len(balance.treated)) == ([240] * 3, 0)


def test_columns_that_are_to_blame_are_named_worst_first():
    values, _, chance = people(4000)
    rng = np.random.default_rng(0)
    for blamed, share in (
        (["town"], np.where(values[1] == 2, 0.8, 0.5)),
        (["spent", "town"], np.where(values[1] == 2, 0.3, 0) + np.where(values[2] > 3, 0.7, 0.3)),
        (["age"], np.where(np.isnan(values[0]), 0.8, 0.5)),  # those who do not tell it
    ):
        balance = counted(values, rng.random(4000) < share, chance)
        assert balance.suspects(np.log(1e4)) == blamed
        assert balance.log_evidence > np.log(1e4)


def test_factors_and_no_factor():
    assert tilted(np.zeros((3, len(TILTS)))) == pytest.approx(0)
    sums = np.full((2, len(TILTS)), -np.inf)
    assert tilted(sums) == pytest.approx(-2 * np.log(len(TILTS) + 1))
