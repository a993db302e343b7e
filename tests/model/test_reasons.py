from itertools import combinations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from auucmax import fit, read_trial
from auucmax.encoding import TableEncoder
from auucmax.model.profiles import others_of, parts_of, reasons_of


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(1),
            "shop": rng.choice(["a", "b", "c"], n),
            "new": rng.integers(0, 2, n),
            "joined": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )


def stand_in(score):
    """A scorer whose score of encoded rows is a function."""
    encoder = TableEncoder().fit(table())
    return SimpleNamespace(encoder=encoder, formula=score)


def shapley_slow(model, own, other):
    """Shapley's values of the columns of one person against one other, over all subsets."""
    terms = model.encoder.terms_
    names = list(dict.fromkeys(term.column for term in terms))

    def value(inside):
        mixed = np.where([term.column in inside for term in terms], own, other)
        return float(model.formula(mixed[None])[0])

    found = []
    for name in names:
        rest = [one for one in names if one != name]
        total = 0.0
        for size in range(len(names)):
            weight = factorial(size) * factorial(len(names) - size - 1) / factorial(len(names))
            for some in combinations(rest, size):
                total += weight * (value({*some, name}) - value({*some}))
        found.append(total)
    return found


@pytest.mark.parametrize("pairs", [False, True])
def test_parts_are_shapleys_values_of_sums_over_columns_and_pairs(pairs):
    rng = np.random.default_rng(1)
    p = len(TableEncoder().fit(table()).terms_)
    coef, both = rng.normal(size=p), rng.normal(size=(p, p)) * pairs
    model = stand_in(lambda X: X / 50 @ coef + np.einsum("ij,jk,ik->i", X / 50, both, X / 50))
    encoded = model.encoder.transform(table(6, seed=2))
    others = others_of(model, table())
    names, parts = parts_of(model, encoded, others)
    assert names == ["age", "shop", "new", "joined"]
    for row, own in zip(parts, encoded, strict=True):
        slow = np.mean([shapley_slow(model, own, other) for other in others], axis=0)
        np.testing.assert_allclose(row, slow, atol=1e-9)


def test_parts_add_up_whatever_the_score():
    model = stand_in(lambda X: np.tanh(X.sum(axis=1) / 100) + (X[:, 0] > 40) * X[:, 1])
    encoded, others = model.encoder.transform(table(9)), others_of(model, table())
    _, parts = parts_of(model, encoded, others)
    away = model.formula(encoded) - model.formula(others).mean()
    np.testing.assert_allclose(parts.sum(axis=1), away, atol=1e-12)


def test_reasons_in_words():
    model = stand_in(lambda X: -X[:, 0])  # age alone
    people = table(50).assign(age=[20.0] + [60.0] * 49)
    found = reasons_of(model, people, others_of(model, table()))
    assert found[0] == "age low (+)"
    assert found[-1] == "age high (-)"
    level = list(model.encoder.get_feature_names_out()).index("shop=b")
    model = stand_in(lambda X: 1.0 * X[:, level])
    found = reasons_of(model, people.head(1).assign(shop="b", age=30.0), others_of(model, table()))
    assert found == ["shop = b (+)"]


def test_target_lists_them_beside_the_people_they_belong_to():
    rng = np.random.default_rng(0)
    people = table(1_500)
    treated = rng.integers(0, 2, 1_500)
    chance = 0.2 + 0.5 * treated * (people["shop"] == "b")
    trial = people.assign(mail=treated, visit=(rng.random(1_500) < chance).astype(int))
    model = fit(read_trial(trial, treatment="mail", outcome="visit"), "tm")
    found = model.target(people, share=0.3, reasons=True)
    chosen = found.chosen()
    assert chosen["reasons"].str.contains("shop = b (+)", regex=False).mean() > 0.9
    assert (found.people["reasons"].iloc[len(chosen) :] == "").all()
    (scorer,) = model.scorers
    others = others_of(scorer, people)
    for _, row in chosen.iloc[::60].iterrows():
        own = people.iloc[[int(row["row"]) - 1]]
        assert reasons_of(scorer, own, others)[0].split(" (")[0] == row["reasons"].split(" (")[0]
    plain = model.target(people, share=0.3)
    assert "reasons" not in plain.people
    pd.testing.assert_frame_equal(plain.people, found.people.drop(columns="reasons"))
