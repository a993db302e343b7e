import numpy as np
import pytest
from experiments.rival_bounds.arms import Arm, auuc_of_risks
from experiments.rival_bounds.gibbs import auuc_of_aucs, gibbs_auc, gibbs_auuc_slow, linear_rows
from experiments.rival_bounds.pac_bayes import (
    PAC_BAYES_BOUNDS,
    _log_xi,
    _variation,
    chromatic_pac_bayes_bound,
    kl_inverse,
    pac_bayes_bound,
)
from scipy.special import kl_div, ndtr
from scipy.stats import binom

from auucmax import AUUCMax, load_hillstrom

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def hillstrom():
    """The 22 features scaled to [0, 1] and the direction of AUUC-max without a constraint."""
    trial = load_hillstrom()
    X = trial.X.to_numpy()
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    rows = {"treatment": trial.treatment != trial.control}
    w = AUUCMax(selection=None, scale="none").fit(X, trial.y, **rows).coef_
    return (trial.y, X), {"w": w, "random_state": 0, **rows}


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(400, 3)), np.arange(400) % 2
    y = (rng.random(400) < ndtr(-0.7 + 1.5 * t * X[:, 0])).astype(int)
    return (y, X), {"treatment": t, "w": [2.0, 0.1, 0.0]}


@pytest.mark.parametrize(
    ("mu", "auuc", "gap"), [(2, 0.0272, 0.0070), (4, 0.0298, 0.0093), (8, 0.0314, 0.0144)]
)
def test_hillstrom(hillstrom, mu, auuc, gap):
    """Figures found with a union over 72 choices; gaps here pay for one mu, so are smaller."""
    rows, options = hillstrom
    bound = pac_bayes_bound(*rows, mu=mu, **options)
    assert bound.estimate == pytest.approx(auuc, abs=2e-4)
    V = 0.128478 / 21387 + 0.094896 / 21306
    assert bound.gap < np.sqrt(V * (mu**2 / 2 + np.log(72 / 0.05)) / 2) <= gap + 5e-5
    assert bound.gap > 0.75 * gap


def test_chromatic_on_hillstrom(hillstrom):
    """The figures paid for a grid and had E_Q exact; here there is no grid, and E_Q is sampled."""
    rows, options = hillstrom
    for mu, gap, lower in ((2, 0.0118, 0.0154), (4, 0.0139, 0.0159)):
        bound = chromatic_pac_bayes_bound(*rows, mu=mu, constant="published", **options)
        assert bound.gap == pytest.approx(gap, abs=4e-4)
        assert bound.lower == pytest.approx(lower, abs=4e-4)
    sharper = chromatic_pac_bayes_bound(*rows, mu=4, **options)
    assert sharper.estimate == bound.estimate
    assert bound.lower + 0.001 < sharper.lower < 0.0205  # what the bound on AUUC itself comes to


def test_a_grid_of_mu(hillstrom):
    """The best of the grid is returned, and the grid is paid for."""
    rows, options = hillstrom
    options = {**options, "n_samples": 100_000}
    alone = {mu: pac_bayes_bound(*rows, mu=mu, **options) for mu in (2.0, 4.0, 8.0)}
    best = pac_bayes_bound(*rows, mu=[8, 2, 4], **options)
    assert best.mu == 4.0 == max(alone, key=lambda mu: alone[mu].lower)
    assert best.estimate == alone[4.0].estimate
    assert alone[4.0].lower - 0.001 < best.lower < alone[4.0].lower


@pytest.mark.parametrize("target", ["conditional", "population"])
def test_gap_written_out(small, target):
    """E_Q exact takes all of delta; sampled, it takes a tenth, in equal parts for each mu."""
    (y, X), options = small
    t, mus, delta = options["treatment"], [1.0, 3.0], 0.1
    n, p = np.bincount(t)[::-1], [y[t == 1].mean(), y[t == 0].mean()]
    lam = np.array(p) * (1 - np.array(p))
    V = (lam / n).sum() if target == "conditional" else (1 / n).sum()
    bound = pac_bayes_bound(y, X, mu=3, target=target, integration="exact", delta=delta, **options)
    assert bound.gap == pytest.approx(np.sqrt(V * (4.5 + np.log(10)) / 2))
    best = pac_bayes_bound(y, X, mu=mus, target=target, integration="exact", delta=delta, **options)
    assert best.gap == pytest.approx(np.sqrt(V * (best.mu**2 / 2 + np.log(20)) / 2))
    factor = lam if target == "conditional" else lam * n / (n - 1)
    for integration, spread in (("pairs", np.hypot(*factor)), ("draws", factor.sum())):
        sampled = pac_bayes_bound(
            y, X, mu=mus, target=target, integration=integration, n_samples=70, delta=delta,
            random_state=0, **options,
        )  # fmt: skip
        gap = np.sqrt(V * (sampled.mu**2 / 2 + np.log(2 / 0.09)) / 2)
        gap += spread * np.sqrt(np.log(2 / 0.01) / 140)
        assert sampled.gap == pytest.approx(gap)


def test_estimates(small):
    """Conditional: AUUC expected over w. Population: a row is not compared with itself."""
    (y, X), options = small
    exact = {"mu": 2, "integration": "exact", **options}
    conditional, population = (
        pac_bayes_bound(y, X, target=target, **exact) for target in ("conditional", "population")
    )
    assert conditional.estimate == pytest.approx(gibbs_auuc_slow(y, X, mu=2, **options))
    t = options["treatment"]
    # area = (n - 1) / n x unbiased + mean / (2 n), the same n in both arms here
    ate = y[t == 1].mean() - y[t == 0].mean()
    assert conditional.estimate == pytest.approx(population.estimate * 199 / 200 + ate / 400)
    chromatic = chromatic_pac_bayes_bound(y, X, **exact)
    assert chromatic.estimate == conditional.estimate


def test_sampling_agrees_with_the_exact_bound(small):
    rows, options = small
    for bound in (pac_bayes_bound, chromatic_pac_bayes_bound):
        exact = bound(*rows, mu=2, integration="exact", **options)
        pairs = bound(*rows, mu=2, random_state=0, **options)
        draws = bound(*rows, mu=2, integration="draws", n_samples=400, random_state=0, **options)
        assert pairs.estimate == pytest.approx(exact.estimate, abs=4 * 0.5 * 0.3 / 1000)
        assert exact.lower - 0.01 < pairs.lower < exact.lower
        assert draws.estimate == pytest.approx(exact.estimate, abs=0.02)
        assert draws.lower < pairs.lower


def test_only_the_direction_counts(small):
    (y, X), options = small
    options["w"] = np.array(options["w"])
    one = pac_bayes_bound(y, X, mu=2, random_state=0, **options)
    options["w"] = 7 * options["w"]
    assert one.lower == pytest.approx(pac_bayes_bound(y, X, mu=2, random_state=0, **options).lower)


def near_worst_cases(target, rng, n_draws):
    """AUUC minus its target in trials that come close to the largest variance, and their arms."""
    if target == "conditional":
        # The rarer class falls on either side of the other by the toss of a coin.
        arms = Arm(10, 200), Arm(200, 10)
        tosses = rng.binomial(10, 0.5, size=(n_draws, 2)) / 10
        truth = auuc_of_aucs(arms, np.array([0.5, 0.5]))
        return arms, np.array([auuc_of_aucs(arms, aucs) for aucs in tosses]) - truth
    # Exactly the top quarter of the population responds, in both arms.
    n, perfect = 100, np.ones(2)
    counts = rng.binomial(n, 0.25, size=(n_draws, 2)).tolist()
    values = [
        auuc_of_aucs((Arm(a, n - a), Arm(b, n - b)), perfect, unbiased=True) for a, b in counts
    ]
    return (Arm(25, 75), Arm(25, 75)), np.array(values)


@pytest.mark.parametrize("target", ["conditional", "population"])
@pytest.mark.parametrize("inequality", ["mcdiarmid", "hoeffding"])
def test_exponential_moment(target, inequality):
    """E exp(sigma Z - sigma^2 V / 8) <= 1: the step that the proof rests on, near its worst case.

    With half of V it would fail wherever V is nearly as small as it can be.
    """
    arms, Z = near_worst_cases(target, np.random.default_rng(2), 40_000)
    V = sum(_variation(arm, target == "population", inequality) for arm in arms)
    sigma = 2 / np.sqrt(V)
    moments = np.exp(sigma * Z - sigma**2 * V / 8)
    error = moments.std() / np.sqrt(len(moments))
    assert moments.mean() <= 1 + 3 * error
    if (target, inequality) != ("population", "mcdiarmid"):
        assert moments.mean() > 0.88
        assert np.exp(sigma * Z - sigma**2 * V / 16).mean() > 1 + 10 * error


def test_hoeffding_is_never_wider(small):
    (y, X), options = small
    for arm in (Arm(1, 1), Arm(1, 2), Arm(3, 2), Arm(50, 1), Arm(300, 4000)):
        for population in (False, True):
            narrow, wide = (_variation(arm, population, i) for i in ("hoeffding", "mcdiarmid"))
            assert narrow <= wide
    bounds = [
        pac_bayes_bound(y, X, inequality=i, target="population", integration="exact", **options)
        for i in ("mcdiarmid", "hoeffding")
    ]
    assert bounds[1].gap < 0.8 * bounds[0].gap


def test_exponential_moment_of_kl():
    """xi(m) is E exp(m kl(k / m, p)) for k binomial, whatever p; between sqrt(m) and 2 sqrt(m)."""
    for m in (1, 2, 7, 40, 300):
        for p in (0.5, 0.03):
            k = np.arange(m + 1)
            kl = kl_div(k / m, p) + kl_div(1 - k / m, 1 - p)
            moment = np.exp(binom.logpmf(k, m, p) + m * kl).sum()
            assert np.exp(_log_xi(m)) == pytest.approx(moment, rel=1e-6)
        assert np.sqrt(m) <= np.exp(_log_xi(m)) <= min(m + 1, 2 * np.sqrt(m)) * (1 + 1e-9)
    # The formula and the bound beyond a million rows meet.
    assert _log_xi(10**6) < _log_xi(10**6 + 1) < _log_xi(10**6) + 0.6


def test_chromatic_written_out():
    """Every pair right, a large mu: E_Q R^ = 0, and kl(0, p) = -ln(1 - p)."""
    y, t = np.tile([1, 0], 100), np.repeat([1, 0], 100)
    X = np.where(y == t, 1.0, -1.0)[:, None]
    options = {"treatment": t, "w": [1.0], "mu": 9, "integration": "exact", "delta": 0.1}
    for constant, log_moment in (("published", np.log(51)), ("exact", _log_xi(50))):
        bound = chromatic_pac_bayes_bound(y, X, constant=constant, **options)
        risk = -np.expm1(-(81 / 2 + log_moment + np.log(20)) / 50)
        assert bound.lower == pytest.approx(0.25 - 0.5 * risk)
        assert bound.estimate == pytest.approx(0.25)


def test_chromatic_pays_for_sampling():
    """A tenth of delta, in equal parts for two arms and two mu: E_Q R^ = 0, raised by the error."""
    y, t = np.tile([1, 0], 100), np.repeat([1, 0], 100)
    X = np.where(y == t, 1.0, -1.0)[:, None]
    bound = chromatic_pac_bayes_bound(
        y, X, treatment=t, w=[1.0], mu=[9, 12], delta=0.1, n_samples=500, random_state=0
    )
    error = np.sqrt(np.log(4 / 0.01) / 1000)
    risk = kl_inverse(error, (81 / 2 + _log_xi(50) + np.log(2 / 0.09)) / 50)
    assert bound.mu == 9
    assert bound.lower == pytest.approx(0.25 - 0.5 * risk, rel=1e-9)


def test_kl_inverse():
    for q, bound in ((0.3, 0.02), (0.0, 0.1), (0.9, 1.0), (0.5, 1e-6)):
        p = kl_inverse(q, bound)
        kl = (q * np.log(q / p) if q else 0) + (1 - q) * np.log((1 - q) / (1 - p))
        assert q < p < 1
        assert kl == pytest.approx(bound, rel=1e-6)
    assert kl_inverse(1.0, 0.1) == 1
    assert kl_inverse(0.2, 0.0) == pytest.approx(0.2)
    assert kl_inverse(0.2, 1e9) == pytest.approx(1.0)


def expected_auc(shift, direction, mu, noise):
    """E_Q AUC if a positive minus a negative row is N(shift, 2 I)."""
    z = shift + np.sqrt(2) * noise
    return ndtr(mu * (z @ direction) / np.linalg.norm(z, axis=1)).mean()


@pytest.mark.gate
@pytest.mark.parametrize("signal", [0.0, 0.6])
def test_they_hold_given_the_outcomes(signal):
    """delta = .2, 400 trials of 120 rows; the direction is fitted to them."""
    rng, delta, n_trials, d = np.random.default_rng(3), 0.2, 400, 4
    counts, noise = (20, 40, 25, 35), np.random.default_rng(4).normal(size=(20_000, d))
    y, t = np.repeat([1, 0, 1, 0], counts), np.repeat([1, 0], 60)
    arms = Arm(*counts[:2]), Arm(*counts[2:])
    shift = np.eye(d)[0] * signal  # treated positives lie off the others
    misses = dict.fromkeys(["mcdiarmid", "hoeffding", "chromatic", "none"], 0)
    for _ in range(n_trials):
        X = rng.normal(size=(120, d)) + (y * t)[:, None] * shift
        sign = np.where(t == 1, 2 * y - 1, 1 - 2 * y)
        rows = {"treatment": t, "w": sign @ X, "delta": delta, "n_samples": 3000}
        mu, u = [0.5, 2.0], sign @ X / np.linalg.norm(sign @ X)
        bounds = {
            "mcdiarmid": pac_bayes_bound(y, X, mu=mu, random_state=rng, **rows),
            "hoeffding": pac_bayes_bound(
                y, X, mu=mu, inequality="hoeffding", random_state=rng, **rows
            ),
            "chromatic": chromatic_pac_bayes_bound(y, X, mu=mu, random_state=rng, **rows),
        }
        truths = {
            value: auuc_of_risks(arms, 1 - expected_auc(shift, u, value, noise), 0.5)
            for value in mu
        }
        for name, bound in bounds.items():
            misses[name] += bound.lower > truths[bound.mu]
        misses["none"] += gibbs_auuc_slow(y, X, treatment=t, w=u, mu=2.0) > truths[2.0]
    assert misses.pop("none") > 0.8 * n_trials
    allowed = delta + 3 * np.sqrt(delta * (1 - delta) / n_trials)
    assert max(misses.values()) / n_trials <= allowed, misses


@pytest.mark.gate
@pytest.mark.parametrize("inequality", ["mcdiarmid", "hoeffding"])
def test_they_hold_for_the_population(inequality):
    """Coin flips of different rates in the arms: every score has half the effect as its AUUC."""
    rng, delta, n_trials = np.random.default_rng(5), 0.2, 400
    t, misses = np.arange(100) % 2, np.zeros(2)
    for _ in range(n_trials):
        X, y = rng.normal(size=(100, 3)), (rng.random(100) < np.where(t == 1, 0.5, 0.3)).astype(int)
        w = np.where(t == 1, y - y[t == 1].mean(), y[t == 0].mean() - y) @ X
        bound = pac_bayes_bound(
            y, X, treatment=t, w=w, mu=[0.5, 2], target="population", inequality=inequality,
            delta=delta, n_samples=3000, random_state=rng,
        )  # fmt: skip
        misses += [bound.lower > 0.1, bound.estimate > 0.1]
    assert misses[1] > 0.5 * n_trials
    assert misses[0] / n_trials <= delta + 3 * np.sqrt(delta * (1 - delta) / n_trials)


def test_bad_input(small):
    (y, X), options = small
    for bound in (pac_bayes_bound, chromatic_pac_bayes_bound):
        with pytest.raises(ValueError, match="delta should be a number strictly"):
            bound(y, X, delta=0, **options)
        with pytest.raises(ValueError, match="y should be 0 or 1"):
            bound(y * 0.5, X, **options)
        with pytest.raises(ValueError, match="w should hold a weight for each"):
            bound(y, X, treatment=options["treatment"], w=[1.0])
    with pytest.raises(ValueError, match="target should be one of"):
        pac_bayes_bound(y, X, target="auuc", **options)
    with pytest.raises(ValueError, match="inequality should be one of"):
        pac_bayes_bound(y, X, inequality="chebyshev", **options)
    with pytest.raises(ValueError, match="constant should be one of"):
        chromatic_pac_bayes_bound(y, X, constant="m", **options)


def test_registry(small):
    rows, options = small
    assert [bound.name for bound in PAC_BAYES_BOUNDS] == ["pac-bayes", "chromatic-pac-bayes"]
    for bound in PAC_BAYES_BOUNDS:
        assert bound.function(*rows, n_samples=10, **options).name == bound.name
        assert "randomised" in bound.target
        assert "scaling" in bound.assumptions


def test_gibbs_is_what_the_bound_reports(small):
    (y, X), options = small
    bound = pac_bayes_bound(y, X, mu=2, random_state=5, n_samples=500, **options)
    linear = linear_rows(y, X, **options)
    aucs = gibbs_auc(linear, 2, n_samples=500, random_state=5).aucs[2.0]
    assert bound.estimate == auuc_of_aucs(linear.arms, aucs)
