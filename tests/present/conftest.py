"""Summaries that the tests of the report share: an ordinary one, and one of hostile names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import shared_arms_model
from tests.present.hostile import HOSTILE

from auucmax import certify, check_randomisation, make_trial
from auucmax.model.judging import linear_weights
from auucmax.present import Economy, Names, summarise, summarise_arms, summarise_check
from auucmax.targeting import calibrate


class Material:
    """Rows, scores and everything that a summary takes."""

    def __init__(self, n_rows: int = 7000, outcome: str = "binary") -> None:
        self.trial = make_trial(
            n_rows, n_features=4, ate=0.08, heterogeneity=0.9, outcome=outcome, random_state=3
        )
        self.y, self.treatment = self.trial.y, self.trial.treatment
        self.score = np.asarray(self.trial.population.uplift(self.trial.X))
        rng = np.random.default_rng(0)
        noise = rng.standard_normal(n_rows)
        self.rivals = {"close": self.score + 0.02 * noise, "random": noise}
        self.features = self.trial.X.assign(city=rng.choice(["north", "south"], n_rows))


@pytest.fixture(scope="session")
def material():
    return Material()


@pytest.fixture(scope="session")
def summary(material):
    m = material
    other = Material(3000)
    return summarise(
        m.y,
        m.score,
        treatment=m.treatment,
        features=m.features,
        rivals=m.rivals,
        calibration=calibrate(other.y, other.score, treatment=other.treatment),
        linear=linear_weights(
            np.array([0.5, -1.0, 0.0, 2.0]), list(m.trial.X), m.trial.X.std(ddof=0).to_numpy()
        ),
        names=Names(outcome="visit", treated="e-mail", control="none", model="AUUC-max"),
        economy=Economy(cohort=20_000, cost=0.1, value=4.0, currency="EUR"),
        share=0.3,
        certificate=certify(m.score, y=m.y, treatment=m.treatment),
        randomisation=check_randomisation(m.trial),
        notes=["A note."],
    )


@pytest.fixture(scope="session")
def harm_summary():
    """Of a trial whose treatment lowers the outcome of everybody."""
    rng = np.random.default_rng(0)
    treated, score = rng.random(4000) < 0.5, rng.standard_normal(4000)
    y = (rng.random(4000) < np.where(treated, 0.2, 0.5)).astype(float)
    return summarise(y, score, treatment=treated, share=0.3)


@pytest.fixture(scope="session")
def vague_summary():
    """Of a trial that helps, with too few outcomes of money for any interval."""
    rng = np.random.default_rng(0)
    treated, score = rng.random(400) < 0.5, rng.standard_normal(400)
    buys = rng.random(400) < 0.16 + 0.3 * treated * (score > 0)
    y = np.where(buys, np.exp(rng.normal(3, 1, 400)), 0.0)
    economy = Economy(cost=1.0, value=1.0)
    return summarise(y, score, treatment=treated, share=1.0, economy=economy)


@pytest.fixture(scope="session")
def check_summary(material):
    trial = material.trial
    return summarise_check(
        check_randomisation(trial), trial.summary(), material.features, trial.treated,
        outcome="0/1", file="trial.csv",
    )  # fmt: skip


@pytest.fixture(scope="session")
def hostile_summary(material):
    m = material
    features = pd.DataFrame(
        {HOSTILE[0]: m.features["city"].map({"north": HOSTILE[1], "south": HOSTILE[2]})}
    )
    return summarise(
        m.y,
        m.score,
        treatment=m.treatment,
        features=features.assign(**{"W" * 5000: m.trial.X.iloc[:, 0]}),
        rivals={HOSTILE[3]: m.score, HOSTILE[4]: -m.score, "R" * 3000: m.rivals["random"]},
        names=Names(HOSTILE[1], HOSTILE[2], HOSTILE[3], HOSTILE[4], HOSTILE[5], HOSTILE[0]),
        economy=Economy(cost=0.1, value=4.0, currency=HOSTILE[1]),
        share=0.3,
        linear=linear_weights(np.ones(1), [HOSTILE[4]], np.ones(1)),
        notes=HOSTILE,
    )


@pytest.fixture(scope="session")
def arms_model():
    return shared_arms_model()


@pytest.fixture(scope="session")
def arms_summary(arms_model):
    economy = Economy(cohort=5_000, value=9.0, currency="EUR")
    return summarise_arms(arms_model, economy=economy, share=0.3)
