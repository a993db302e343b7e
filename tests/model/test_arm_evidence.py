"""What is kept of a policy: budgets that tell of nobody alone, files, costs."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.arms_table import COSTS, arms_table, fitted

from auucmax.model import ArmsEvidence
from auucmax.model.arm_evidence import (
    JudgedArms,
    _chosen,
    _rate,
    guides,
    policy_curve,
    top_shares,
)


@st.composite
def judged_rows(draw):
    seed, n = draw(st.integers(0, 2**16)), draw(st.sampled_from([130, 400, 900]))
    n_arms = draw(st.integers(2, 3))
    rng = np.random.default_rng(seed)
    uplift = rng.normal(0.1, draw(st.sampled_from([0.01, 0.1, 0.3])), (n, n_arms))
    if draw(st.booleans()):
        uplift = uplift.round(1)
    arm = rng.integers(0, n_arms + 1, n)
    fold = rng.integers(0, draw(st.integers(1, 3)), n)
    return JudgedArms((rng.random(n) < 0.4).astype(float), arm, uplift, fold=fold), rng


def told_parts(rows, costs, curve):
    """For each policy and budget that is told: what counts of each row, (n,), by choosing anew."""
    from auucmax.metrics.arm_policy import Policy

    cost = np.broadcast_to(np.array(list(costs.values())), rows.uplift.shape)
    grid, n_arms = np.array(curve["budget"]), rows.uplift.shape[1]
    best = list(costs).index(curve["everybody"]["arm"])
    policies = [Policy.of_folds(rows.uplift, cost, rows.fold)]
    policies += [Policy.of_one_arm(rows.uplift, cost, k, rows.fold) for k in range(n_arms)]
    policies += [Policy.of_everybody(len(rows.y), cost, best)]
    told = [curve["policy"], *curve["singles"].values(), curve["everybody"]]
    for policy, own in zip(policies, told, strict=True):
        parts = np.concatenate([part for _, part in policy.parts(grid, n_arms)])
        yield parts, [gain is not None and np.isfinite(gain) for gain in own["gain"]]


def few(rows, one, other):
    for got in range(rows.uplift.shape[1] + 1):
        own = rows.arm == got
        columns = slice(None) if got == 0 else [got - 1]
        n = (np.abs(one[own] - other[own])[:, columns] > 1e-9).any(axis=1).sum()
        if 0 < n < 20:
            return True
    return False


@pytest.mark.gate
@settings(deadline=None, max_examples=10)
@given(judged_rows())
def test_between_any_two_numbers_are_rows_enough_of_each_arm(given_rows):
    """Of all policies at all budgets, and of the top shares that each arm's evidence tells."""
    rows, rng = given_rows
    n_arms = rows.uplift.shape[1]
    costs = {f"arm{k}": float(c) for k, c in enumerate(rng.integers(1, 4, n_arms))}
    share, known, shown = np.linspace(0, 1, 5), [], []
    for k in range(n_arms):
        own = np.flatnonzero((rows.arm == 0) | (rows.arm == k + 1))
        rank = rows.uplift[own, k] + 10 * rows.fold[own]
        known.append(top_shares(rank, own, k, len(rows.y), share))
        for q in share[1:]:
            found = np.zeros((len(rows.y), n_arms))
            found[own, k] = top_part(rank, q)
            shown.append(found)
    curve = policy_curve(rows, costs, known=known)
    told, ends = [], (0, len(curve["budget"]) - 1)
    for k, (parts, there) in enumerate(list(told_parts(rows, costs, curve))[:-1]):
        told += [((k, j), parts[..., j]) for j in np.flatnonzero(there)]
    for (i, at), one in told:
        assert not any(few(rows, one, other) for other in shown)
        for (j, before), other in told:
            # All rows that count stand behind the whole policy.
            whole = i == j == 0 and {at, before} == {*ends}
            assert whole or not few(rows, one, other)


def top_part(rank, share):
    """(n,) the part of each row in a top share, row by row."""
    above = np.array([(rank > own).sum() for own in rank])
    equal = np.array([(rank == own).sum() for own in rank])
    return np.clip((share * len(rank) - above) / equal, 0, 1)


@pytest.mark.gate
def test_numbers_of_two_costs_and_of_arms_alone_tell_of_nobody(monkeypatch):
    """Of a model with costs: all that its file tells of choices, with the arms' own evidence."""
    seen = []

    def curve_of(rows, costs, **options):
        seen.append((rows, options["known"], policy_curve(rows, costs, **options)))
        return seen[-1][-1]

    monkeypatch.setattr("auucmax.model.arm_fitting.policy_curve", curve_of)
    model = fitted(arms_table(1_500), cost=COSTS)
    ((rows, known, curve),) = seen
    assert len(model.policy["curves"]) == 1
    told = []
    for parts, there in list(told_parts(rows, COSTS, curve))[:-1]:
        told += [parts[..., j] for j in np.flatnonzero(there)]
    for k, (label, (policy, share)) in enumerate(zip(model.labels, known, strict=True)):
        evidence = model.models[label].evidence
        assert share.tolist() == evidence.expected.share[1:].tolist()
        parts = np.concatenate([part for _, part in policy.parts(share, 2)])[:, k]
        # These are the rows behind the numbers of the arm's own evidence.
        centred = rows.y - rows.y[np.isin(rows.arm, (0, k + 1))].mean()
        treated, control = (
            centred[rows.arm == got] @ parts[rows.arm == got] / (rows.arm == got).sum()
            for got in (k + 1, 0)
        )
        np.testing.assert_allclose(treated - control, evidence.expected.uplift[1:], atol=1e-9)
        columns = np.zeros((len(rows.y), 2, len(share)))
        columns[:, k] = parts
        told += [columns[..., j] for j in range(len(share))]
    n_own = len(told) - sum(len(share) for _, share in known)
    whole = len(curve["budget"]) - 1
    for i in range(n_own):
        for j in range(i + 1, len(told)):
            assert (i, j) == (0, whole) or not few(rows, told[i], told[j])


def test_facts_come_back_from_a_file_and_nothing_else(arms_model):
    evidence = arms_model.evidence
    again = ArmsEvidence.from_dict(evidence.arms, copy.deepcopy(evidence.facts))
    assert again.facts == evidence.facts

    def broken(change):
        facts = copy.deepcopy(evidence.facts)
        change(facts)
        with pytest.raises(ValueError, match="should"):
            ArmsEvidence.from_dict(evidence.arms, facts)

    broken(lambda f: f.pop("curves"))
    broken(lambda f: f["curves"].clear())
    broken(lambda f: f["curves"][0]["budget"].pop())
    broken(lambda f: f["curves"][0]["policy"]["gain"].append(0.0))
    broken(lambda f: f["curves"][0]["policy"].update(shares=[[0.5]]))
    broken(lambda f: f["curves"][0]["costs"].pop("mail"))
    broken(lambda f: f["curves"][0]["singles"].update(fax={}))
    broken(lambda f: f["rows"].update(mail="many"))
    broken(lambda f: f["curves"][0]["budget"].reverse())
    broken(lambda f: f["certificate"].pop("text"))
    for kind in ("random", "single", "everybody"):
        for end in ("area_lower", "area_upper"):
            broken(lambda f, k=kind, e=end: f["curves"][0]["differences"][k].update({e: None}))
    for name in ("lower", "upper", "simultaneous_lower", "simultaneous_upper", "gain"):
        broken(lambda f, n=name: f["curves"][0]["policy"].update({n: one_changed(f, n)}))


AGES = {
    "name": "age",
    "bins": ["a", "b"],
    "top": [0.5, 0.5],
    "rest": [0.5, None],
    "distance": 0.1,
}


@pytest.mark.parametrize(
    ("more", "of_arm", "of_column"),
    [
        ({"part": 7.5}, {}, {}),
        ({"part": -1.0}, {}, {}),
        ({"budget": -1.0}, {}, {}),
        ({"budget": 1e100}, {}, {}),
        ({}, {"n_columns": -5}, {}),
        ({}, {"n_columns": 0}, {}),
        ({}, {"arm": "fax"}, {}),
        ({}, {}, {"top": [0.5] * 50}),
        ({}, {}, {"rest": [0.5]}),
        ({}, {}, {"bins": [], "top": [], "rest": []}),
        ({}, {}, {"top": [1e100, 0.5]}),
        ({}, {}, {"rest": [-0.5, 0.5]}),
        ({}, {}, {"distance": -3.0}),
    ],
)
def test_people_of_arms_are_read_as_they_were_written_or_not_at_all(
    arms_model, more, of_arm, of_column
):
    evidence = arms_model.evidence
    facts = copy.deepcopy(evidence.facts)

    def read(more, of_arm, of_column):
        arm = {"arm": "mail", "n_columns": 3, "columns": [AGES | of_column]} | of_arm
        facts["people"] = {"part": 0.3, "budget": 0.0, "arms": [arm]} | more
        return ArmsEvidence.from_dict(evidence.arms, facts)

    assert read({}, {}, {})["people"]["part"] == 0.3
    with pytest.raises(ValueError, match="people of the policy should be shares of each arm"):
        read(more, of_arm, of_column)
    twice = {"arm": "mail", "n_columns": 1, "columns": []}
    with pytest.raises(ValueError, match="people of the policy"):
        read({"arms": [twice, twice]}, {}, {})


def one_changed(facts, name):
    """A number of the policy taken away where its interval is told."""
    policy = facts["curves"][0]["policy"]
    place = next(k for k, low in enumerate(policy["simultaneous_lower"]) if low is not None)
    return [None if k == place else one for k, one in enumerate(policy[name])]


def test_segments_are_read_as_they_were_written_or_not_at_all(arms_model):
    evidence = arms_model.evidence
    found = evidence["segments"]
    for part in found["parts"]:  # mail helps the young
        assert (part["learnt"]["mail"] > part["learnt"]["phone"]) == ("up to" in part["rule"][0])
    old = {name: own for name, own in evidence.facts.items() if name != "segments"}
    assert ArmsEvidence.from_dict(evidence.arms, old)["segments"] is None
    first, *others = found["parts"]
    turned = [one | {"lower": 1.0, "upper": -1.0} for one in first["contrasts"]]
    for wrong in (
        found | {"level": 2.0},
        found | {"parts": [first]},
        found | {"parts": [first | {"learnt": {"letter": 0.1}}, *others]},
        found | {"parts": [first | {"certified": {"letter": 0.1}}, *others]},
        found | {"parts": [first | {"contrasts": first["contrasts"][1:]}, *others]},
        found | {"parts": [first | {"share": 0.0}, *others]},
        found | {"parts": [first | {"contrasts": turned}, *others]},
        *(
            found
            | {"parts": [first | {"contrasts": [one | odd for one in first["contrasts"]]}, *others]}
            for odd in (
                {"standard_error": 1e200},
                {"standard_error": -1.0},
                {"estimate": 5.0, "lower": -1.0, "upper": 0.0},
                {"upper": None},
            )
        ),
        found | {"level": 0.9999999999999999},
        found | {"parts": [first | {"rows": -5}, *others]},
        found | {"parts": [first | {"share": 1.0}, *others]},
        found | {"parts": [first | {"rule": []}, *others]},
        found | {"parts": [first | {"rule": [""]}, *others]},
        found | {"parts": [one | {"share": 1e-9} for one in found["parts"] * 5]},
        {"level": 0.95},
    ):
        with pytest.raises(ValueError, match="segments"):
            ArmsEvidence.from_dict(evidence.arms, old | {"segments": wrong})
    # Those of one arm by itself would be of other parts of the same control rows.
    assert all(own["segments"] == [] for own in evidence.arms.values())


def test_rates_that_no_budget_has_are_not_read(arms_model):
    evidence = arms_model.evidence
    (curve,) = evidence["curves"]

    def read(rate):
        return ArmsEvidence.from_dict(
            evidence.arms, evidence.facts | {"curves": [curve | {"rate": rate}]}
        )

    rate = curve["rate"]
    assert rate[0] > rate[-1]
    assert read(rate)["curves"] == [curve]
    assert read([None, *rate[1:]])["curves"][0]["rate"][0] is None  # that of a step that is free
    for wrong in (rate[::-1], rate[1:], [*rate[:-1], -1.0], [*rate[:-1], None]):
        with pytest.raises(ValueError, match="numbers that belong together"):
            read(wrong)


def test_costs_in_the_same_ratios_have_a_curve(arms_model):
    evidence = arms_model.evidence
    (money,) = evidence["curves"]
    assert evidence.curve_for([5.0, 5.0]) is None
    assert evidence.curve_for([0.1, 0.2]) == (money, 0.1)
    assert evidence.curve_for([0.2, 0.1]) is None
    assert evidence.curve_for([0.0, 0.0]) is None


def test_the_policy_of_a_rate_spends_the_budget_of_the_guides():
    rng = np.random.default_rng(0)
    uplift, cost = rng.normal(0.1, 0.2, (4_000, 2)), np.array([1.0, 2.0])
    keys = rng.integers(0, 2**64, 4_000, dtype=np.uint64)
    guide = guides(keys)
    assert guide.mean() == pytest.approx(0.1, abs=0.02)
    for budget in (0.0, 0.2, 0.6, 9.0):
        chosen = _chosen(uplift, cost, _rate(uplift[guide], cost, budget))
        spent = np.array([0.0, *cost])[chosen].mean()
        most = np.array([0.0, *cost])[_chosen(uplift, cost, 0.0)].mean()
        assert spent == pytest.approx(min(budget, most), abs=0.08)


def unequal_rows(rng, n):
    """Regulars visit anyway and mostly got the second arm; each arm gains .3 for half of people."""
    x, regular = rng.random(n), rng.random(n) < 0.5
    chance = np.where(regular[:, None], [0.2, 0.2, 0.6], [0.5, 0.35, 0.15])
    arm = (rng.random(n)[:, None] > np.cumsum(chance, axis=1)).sum(axis=1)
    effect = np.column_stack([0 * x, 0.3 * (x < 0.5), 0.3 * (x >= 0.5)])
    y = (rng.random(n) < 0.1 + 0.3 * regular + effect[np.arange(n), arm]).astype(float)
    return JudgedArms(y, arm, np.column_stack([0.3 - 0.3 * x, 0.3 * x]), chance=chance)


def test_rivals_that_these_rows_chose_have_no_p_value():
    found = policy_curve(
        unequal_rows(np.random.default_rng(0), 1_000), {"a": 1.0, "b": 1.0}, private=False
    )["differences"]
    told = {name: bool(np.isfinite(one["p_value"])) for name, one in found.items()}
    assert told == {"random": True, "single": False, "everybody": False}


@pytest.mark.gate
def test_gains_by_known_chances_are_right_and_so_are_their_errors():
    """Half of the people treated gain .15, all of them .3, and random ones half of it."""
    rng, found, n_times = np.random.default_rng(0), [], 100
    for _ in range(n_times):
        curve = policy_curve(unequal_rows(rng, 1_000), {"a": 1.0, "b": 1.0}, private=False)
        own, area = curve["policy"], curve["differences"]["random"]
        wide = (area["area_upper"] - area["area_lower"]) / 3.92
        ends = [(own["gain"][k], own["standard_error"][k]) for k in (25, 50)]
        found.append([*ends, (area["area"], wide)])
    (estimate, error), truth = np.moveaxis(found, -1, 0), [0.15, 0.3, 0.075]
    spread = estimate.std(axis=0)
    assert (np.abs(estimate.mean(axis=0) - truth) < 3.5 * spread / np.sqrt(n_times)).all()
    ratio = error.mean(axis=0) / spread
    assert (ratio > 0.8).all()
    assert (ratio < 1.4).all()


def test_without_weights_the_arm_that_regulars_got_looks_better():
    rows = unequal_rows(np.random.default_rng(1), 4_000)
    everybody = [
        policy_curve(own, {"a": 1.0, "b": 1.0}, private=False)["everybody"]
        for own in (rows, rows._replace(chance=None))
    ]
    assert abs(everybody[0]["gain"][-1] - 0.15) < 4 * everybody[0]["standard_error"][-1]
    assert everybody[1]["gain"][-1] - 0.15 > 3 * everybody[1]["standard_error"][-1]
