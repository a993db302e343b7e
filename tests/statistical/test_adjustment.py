"""Covariate-adjusted intervals hold their level, and are narrower when covariates predict y."""

import numpy as np
import pytest

from auucmax.metrics.functions import auuc_difference, auuc_inference

pytestmark = pytest.mark.gate
N_TRIALS, N_ROWS = 1000, 1000
# At a true rate of .05 the rate over 1,000 trials has standard error .007.
LOWEST, HIGHEST = 0.03, 0.07
EFFECT = 0.4


class Population:
    """Score and z independent and uniform; the effect is EFFECT times the score.

    Continuous: y = 3 z + noise. Binary: P(y = 1) = .05 + .5 z in the control arm.
    """

    auuc, gain = EFFECT / 3, EFFECT / 12

    def __init__(self, outcome, share):
        self.outcome, self.share = outcome, share

    def draw(self, rng):
        score, z = rng.random((2, N_ROWS))
        treated = rng.random(N_ROWS) < self.share
        base = self.base(z) + treated * EFFECT * score
        noise = rng.normal(scale=0.5, size=N_ROWS)
        y = base + noise if self.outcome == "continuous" else (rng.random(N_ROWS) < base) * 1.0
        return y, score, treated, z

    def base(self, z):
        return 3 * z if self.outcome == "continuous" else 0.05 + 0.5 * z

    def models(self, score, z, rng):
        return {
            # (1 - e) m1 + e m0, with coefficients that are off by a tenth
            "good": 0.9 * self.base(z) + (1 - self.share) * EFFECT * score,
            "constant": np.full(N_ROWS, self.base(0.5)),
            "noise": 0.1 * rng.normal(size=N_ROWS),
        }


def outside(interval, truth):
    return not interval[0] <= truth <= interval[1]


def width(interval):
    return interval[1] - interval[0]


# Width of the adjusted intervals relative to the plain ones, from - to.
SEPARATE = {
    "continuous": {"good": (0.4, 0.6), "constant": (0.999, 1.001), "noise": (0.99, 1.02)},
    # Outcomes that were 0 and 1 have other limits once something was taken off them.
    "binary": {"good": (0.88, 0.98), "constant": (0.98, 1.02), "noise": (0.99, 1.05)},
}
# With joint ranks AUUC does not centre y: any model of its mean narrows the interval. The gain is
# centred by itself, with either ranking.
JOINT = {
    "continuous": {"good": (0.2, 0.5), "constant": (0.4, 0.8), "noise": (0.99, 1.02)},
    "binary": {"good": (0.7, 0.9), "constant": (0.75, 0.95), "noise": (0.99, 1.05)},
}


@pytest.mark.parametrize(("share", "ranking"), [(0.5, "joint"), (0.8, "joint"), (0.8, "separate")])
@pytest.mark.parametrize("outcome", ["continuous", "binary"])
def test_level_and_width(outcome, share, ranking):
    population = Population(outcome, share)
    rng = np.random.default_rng([len(outcome), int(share * 10)])
    names = list(JOINT[outcome])
    misses, widths, plain_widths = np.zeros((3, 2)), np.zeros((3, 2)), np.zeros(2)
    for _ in range(N_TRIALS):
        y, score, t, z = population.draw(rng)
        plain = auuc_inference(y, score, treatment=t, ranking=ranking)
        plain_widths += width(plain.interval), width(plain.gain_interval)
        for k, m in enumerate(population.models(score, z, rng).values()):
            result = auuc_inference(y, score, treatment=t, ranking=ranking, outcome_model=m)
            intervals = result.interval, result.gain_interval
            truths = population.auuc, population.gain
            misses[k] += [outside(i, truth) for i, truth in zip(intervals, truths, strict=True)]
            widths[k] += [width(i) for i in intervals]
    rates, ratios = misses / N_TRIALS, widths / plain_widths
    assert (rates >= LOWEST).all(), rates
    assert (rates <= HIGHEST).all(), rates
    expected = (JOINT if ranking == "joint" else SEPARATE)[outcome]
    for name, (of_auuc, of_gain) in zip(names, ratios, strict=True):
        low, high = expected[name]
        assert low < of_auuc < high, (name, of_auuc)
        low, high = SEPARATE[outcome][name]
        assert low < of_gain < high, (name, of_gain)


def test_with_weights_and_a_propensity_that_depends_on_a_covariate():
    """Rows of large z were treated more often and sampled less; m mixes by the row's own e."""
    rng = np.random.default_rng(4)
    population = Population("continuous", 0.5)
    misses, widths = np.zeros(2), np.zeros(2)
    for _ in range(N_TRIALS):
        score, z = rng.random((2, N_ROWS))
        sampled = rng.random(N_ROWS) < 1 - 0.5 * z
        score, z = score[sampled], z[sampled]
        e = 0.3 + 0.4 * z
        t = rng.random(len(z)) < e
        y = 3 * z + t * EFFECT * score + rng.normal(scale=0.5, size=len(z))
        options = {"treatment": t, "propensity": e, "sample_weight": 1 / (1 - 0.5 * z)}
        plain = auuc_inference(y, score, **options)
        m = 0.9 * 3 * z + (1 - e) * EFFECT * score
        result = auuc_inference(y, score, outcome_model=m, **options)
        misses += [
            outside(result.interval, population.auuc),
            outside(result.gain_interval, population.gain),
        ]
        widths += [width(plain.interval), width(result.interval)]
    assert (misses / N_TRIALS >= LOWEST).all(), misses / N_TRIALS
    assert (misses / N_TRIALS <= HIGHEST).all(), misses / N_TRIALS
    assert widths[1] < 0.8 * widths[0]


def test_differences():
    """Two noisy versions of one score: the difference of their AUUC is truly zero."""
    rng = np.random.default_rng(5)
    population, misses, widths = Population("continuous", 0.5), 0, np.zeros(2)
    for _ in range(N_TRIALS):
        y, score, t, z = population.draw(rng)
        a, b = (score + 0.3 * rng.normal(size=N_ROWS) for _ in range(2))
        m = population.models(score, z, rng)["good"]
        plain = auuc_difference(y, a, b, treatment=t)
        result = auuc_difference(y, a, b, treatment=t, outcome_model=m)
        misses += outside(result.interval, 0)
        widths += [width(plain.interval), width(result.interval)]
    assert LOWEST <= misses / N_TRIALS <= HIGHEST
    assert widths[1] < 0.75 * widths[0]
