"""Raw tables with everything that databases quarrel about, and encoders and formulas for them."""

import math
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st
from tests.strategies import forests

from auucmax.encoding import TableEncoder
from auucmax.estimators import BoostedEffect, ShrunkInteractions, UpliftEnsemble
from auucmax.estimators.formula import Formula, Part, RankMean, TreeScores
from auucmax.model.uplift_model import Scorer
from auucmax.results import Kind, Outcome, Roles
from auucmax.targeting.calibration import Calibration
from auucmax.targeting.quantiles import ScoreQuantiles

KINDS = ("number", "code", "category", "boolean", "date")
ARROW = {
    "number": pa.float64(),
    "code": pa.float64(),
    "category": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.timestamp("us"),
}
HOSTILE_NAMES = (
    'a"b', "c`d", "e'f", "g.h", "i\nj", "k\\", "{x}", "x; DROP TABLE t; --", "überß😀", "select",
    "\u2028", "/*", "%s", "a b ", "constant", "Add", "1",
)  # fmt: skip
HOSTILE_LEVELS = (
    "", "it's", 'q"', "\\", "\\'", "' OR 1=1 --", "a\nb", "a\r\nb", "tab\t", "é", "e\u0301", "NULL",
    "😀", "\u2028", "$$", "{x}", "${x}", "\\${x}", "中\\'", "\\u0041", "%", " ", "nan", "`", "?",
    ":a", "1", "1.0", "1.50", "-2.00", "1.5", "10", "v1.0", "NA", "0", "-0", "-0.0", "true", "True",
    "FALSE",
)  # fmt: skip
CODES = (-1.0, 0.0, 7.0, 1e12)
HUGE = (0.0, -0.0, 1e300, -1e300, 1e-300, 2.0**53 + 1, 1e15 + 0.3)


#: A calibration that does not matter.
FLAT = Calibration((0.0,), (0.25,), 0.25, 9, 4, 1)


@dataclass(frozen=True)
class Scores:
    """What exports read of a model."""

    roles: Roles
    scorers: tuple[Scorer, ...]

    @property
    def score_names(self):
        arms = self.roles.arms[1:]
        suffixes = [f" {arm}" for arm in arms] if len(arms) > 1 else [""]
        return [f"{what}{suffix}" for suffix in suffixes for what in ("score", "uplift")]


def model_of(encoder, formula, calibration=FLAT):
    """One arm, ``treated``, against ``none``."""
    return Scores(roles_of("none", "treated"), (scorer_of(encoder, formula, calibration),))


def roles_of(*arms):
    outcome = Outcome(name="y", kind=Kind.BINARY)
    return Roles(treatment="arm", arms=arms, outcome=outcome, features=("x",))


def scorer_of(encoder, formula, calibration, slope=0.0, centre=0.0):
    quantiles = ScoreQuantiles.of(np.arange(100.0))
    return Scorer(encoder, formula, calibration, quantiles, slope, centre)


@dataclass(frozen=True)
class Case:
    """A table (kind and Python values of each column), and what scores it."""

    kinds: dict[str, str]
    values: dict[str, list]
    encoder: TableEncoder
    formula: Formula
    calibration: Calibration

    @property
    def model(self):
        return model_of(self.encoder, self.formula, self.calibration)

    @cached_property
    def frame(self):
        return frame_of(self.kinds, self.values)

    @cached_property
    def score(self):
        return self.formula(self.features)

    @cached_property
    def features(self):
        return encoded(self.encoder, self.frame)

    @property
    def tolerance(self):
        """1e-9, and what a sum in another order may differ by."""
        if isinstance(self.formula, Formula):
            return 1e-9 + rounding(self.formula, self.features)
        members = zip(self.formula.members, self.formula.knots, strict=True)
        steps = [(rounding(m, self.features), np.diff(k, axis=1)) for m, k in members]
        slopes = [(own, np.max(step[1] / step[0], initial=0.0)) for own, step in steps]
        return 1e-9 + np.mean([np.minimum(own * slope, 1) for own, slope in slopes], axis=0)

    def arrow(self):
        """With NULL where the value is None and NaN where it is that."""
        columns = {
            name: pa.array(values, type=ARROW[self.kinds[name]], from_pandas=False)
            for name, values in self.values.items()
        }
        columns["row number"] = pa.array(range(len(self.frame)))
        return pa.table(columns)

    def rows(self):
        """Dicts of plain values, dates as days."""
        columns = {
            name: [days(v) if isinstance(v, datetime) else v for v in values]
            for name, values in self.values.items()
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rounding(formula, X):
    """What a sum in another order may differ by, (n,)."""
    bent = [np.abs(X[:, c]) + abs(q) for c, q in formula.hinges]
    sums = [np.full(len(X), np.abs(trees.value).sum()) for trees in formula.trees]
    terms = np.column_stack([np.abs(X), *bent, *sums])
    inner = [abs(p.weight) * (terms @ np.abs(p.coef)) for p in formula.parts]
    return 1e-13 * np.sum(inner, axis=0)


def days(moment):
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) / 86_400e6


def frame_of(kinds, values):
    def series(name):
        if kinds[name] in ("number", "code"):
            return pd.Series([math.nan if v is None else v for v in values[name]], dtype="float64")
        if kinds[name] == "boolean":
            return pd.Series(values[name], dtype="boolean")
        dtype = "datetime64[us]" if kinds[name] == "date" else object
        return pd.Series(values[name], dtype=dtype)

    return pd.DataFrame({name: series(name) for name in kinds})


def fit_encoder(kinds, values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # columns of one value are dropped
        encoder = TableEncoder(max_levels=4, min_level_rows=2, new_levels="other")
        return encoder.fit(frame_of(kinds, values))


def encoded(encoder, frame):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column .* should mostly hold levels", UserWarning)
        return encoder.transform(frame)


def can_be_a_name(name):
    """Whether no dialect refuses it."""
    return "${" not in name


def names(min_size=1, max_size=4):
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    drawn = st.sampled_from(HOSTILE_NAMES) | st.text(characters, min_size=1, max_size=6)
    reserved = {"score", "uplift", "arm", "row number"}
    free = drawn.filter(lambda name: name.casefold() not in reserved and can_be_a_name(name))
    return st.lists(free, min_size=min_size, max_size=max_size, unique_by=str.casefold)


@st.composite
def cases(draw, whole_seconds=False, missing_rate=5, bent=False):
    """``bent``: with hinges and trees, cut at values of the rows, and ranks."""
    chosen = draw(names())
    kinds = {name: draw(st.sampled_from(KINDS)) for name in chosen}
    kinds[chosen[0]] = draw(st.sampled_from(("number", "category", "code")))
    train, new = {}, {}
    n_train, n_new = 12, draw(st.integers(1, 8))
    for name, kind in kinds.items():
        cell = cells(draw, kind, whole_seconds)
        maybe = st.one_of(*([cell] * missing_rate), st.none())
        if kind in ("number", "code"):
            maybe = st.one_of(maybe, st.sampled_from(HUGE), st.just(math.nan))
        has_gaps = draw(st.booleans())
        train[name] = draw(
            st.lists(maybe if has_gaps else cell, min_size=n_train, max_size=n_train)
        )
        new[name] = draw(st.lists(maybe, min_size=n_new, max_size=n_new))
        if kind == "code":  # whatever was drawn, it is one
            train[name] = [*CODES, None] * 2 + [CODES[0], CODES[1]] if has_gaps else [*CODES] * 3
    first = chosen[0]  # it tells rows apart, so that some column does
    if kinds[first] != "code":
        train[first][:4] = [1.0, 2.0] * 2 if kinds[first] == "number" else ["p", "q"] * 2
    encoder = with_means(draw, fit_encoder(kinds, train))
    features = encoded(encoder, frame_of(kinds, new))
    formula = draw(bent_formulas(features) if bent else formulas(len(encoder.terms_)))
    score = formula(features)
    return Case(kinds, new, encoder, formula, draw(calibrations(score)))


def with_means(draw, encoder):
    """Some categories as if they had many levels, and outcomes had told of them."""
    columns, number = [], st.integers(-999, 999).map(lambda k: k / 1000)
    for column in encoder.columns_:
        if column.kind == "category" and column.levels and draw(st.booleans()):
            size = len(column.levels) + 1
            numbers = st.lists(number, min_size=size, max_size=size).map(tuple)
            kinds = draw(st.sampled_from([["base"], ["effect"], ["base", "effect"]]))
            column = replace(column, takes_new=True, **{kind: draw(numbers) for kind in kinds})
        columns.append(column)
    return encoder._set(columns, {}, list(encoder.feature_names_in_))


def cells(draw, kind, whole_seconds):
    """Values of a column, its levels drawn first so that some are frequent."""
    if kind == "number":
        return st.floats(-10, 10, allow_subnormal=False) | st.floats(
            -1e6, 1e6, allow_subnormal=False
        )
    if kind == "code":
        return st.sampled_from(CODES) | st.integers(-2, 12).map(float)
    if kind == "boolean":
        return st.booleans()
    if kind == "date":
        moments = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
        return moments.map(lambda m: m.replace(microsecond=0)) if whole_seconds else moments
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    texts = st.sampled_from(HOSTILE_LEVELS) | st.text(characters, max_size=5)
    return st.sampled_from(draw(st.lists(texts, min_size=2, max_size=6, unique=True)))


def numbered():
    """A category whose levels are numbers, and rows that write them in several ways."""
    train = {"c": ["1", "2", "1.5", "x", "1", "2", "1.5", "x", "20", "30", None, None]}
    encoder = fit_encoder({"c": "category"}, train)
    assert encoder.columns_[0].levels == ("1", "1.5", "2", "x")
    return encoder, Formula((Part(1.0, "identity", 0.5, np.array([1.0, 2, 4, 8, 16, 32])),))


#: Values of the category of ``numbered`` in the types that rows may have, and their scores.
NUMBERED = {
    "int": ([1, 2, 20, 10, None], [1.5, 4.5, 16.5, 16.5, 32.5]),
    "float": ([1.0, 1.5, 2.0, 2.5, math.nan], [1.5, 2.5, 4.5, 16.5, 32.5]),
    "decimal": ([Decimal("1.00"), Decimal("1.50"), Decimal("20.00")], [1.5, 2.5, 16.5]),
    "text": (["1", "1.0", "2.00", "1.50", "x", "x.0", "", "NA", "null", None],
             [1.5, 1.5, 4.5, 2.5, 8.5, 16.5, 32.5, 32.5, 32.5, 32.5]),
}  # fmt: skip


def plans():
    """A column of codes with rare ones and missing ones; the scores are in ``PLANS``."""
    train = {"p": [1.0, 2.0, 1e15] * 3 + [20.0, 21.0] + [None, None]}
    encoder = fit_encoder({"p": "code"}, train)
    assert encoder.columns_[0].levels == ("1", "2", "1000000000000000")
    return encoder, Formula((Part(1.0, "identity", 0.5, np.array([1.0, 2, 4, 8, 16])),))


#: Values of the codes of ``plans`` in the types that rows may have, and their scores.
PLANS = {
    "int": ([1, 2, 10**15, 20, 21, None], [1.5, 2.5, 4.5, 8.5, 8.5, 16.5]),
    "float": ([1.0, 2.0, 1e15, 2.5, 1e300, math.nan], [1.5, 2.5, 4.5, 8.5, 8.5, 16.5]),
    "decimal": ([Decimal("1.00"), Decimal("2.50"), None], [1.5, 8.5, 16.5]),
}


def zero():
    """A category that has 0 for a level."""
    encoder = fit_encoder({"c": "category"}, {"c": ["0", "x", "0", "x", "1", "1"]})
    return encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))


#: True, false and missing in the types that rows may have.
BOOLEANS = {
    "boolean": [True, False, None],
    "text": ["true", "false", ""],
    "text of pandas": ["True", "False", None],
    "text of R": ["TRUE", "FALSE", "NA"],
    "text of digits": ["1", "0", "null"],
    "integer": [1, 0, None],
    "float": [1.0, -0.0, math.nan],
    "decimal": [Decimal("1.00"), Decimal("0.00"), None],
}


def truth(words=None):
    """A boolean column, or a category of two words, and the scores of true, false and missing."""
    yes, no = words or (True, False)
    kind = "category" if words else "boolean"
    encoder = fit_encoder({"b": kind}, {"b": [yes, no, no, yes, no, None, None]})
    coef = np.array([0.0, 2.0, 4.0] if words else [2.0, 4.0])
    return encoder, Formula((Part(1.0, "identity", 0.5, coef),)), [2.5, 0.5, 4.5]


def formulas(n_features):
    number = st.floats(-3, 3, allow_subnormal=False).map(lambda v: v if abs(v) > 1e-6 else 0.0)
    coef = st.builds(  # small ones, too, so that sigmoids are not all 0 or 1
        lambda values, scale: scale * np.array(values),
        st.lists(number, min_size=n_features, max_size=n_features),
        st.sampled_from([1.0, 1e-4]),
    )
    link = st.sampled_from(["identity", "sigmoid"])
    parts = st.lists(st.builds(Part, number, link, number, coef), min_size=1, max_size=3)
    return st.builds(Formula, parts.map(tuple), st.sampled_from([0.0, 1.0, -0.25]))


@st.composite
def bent_formulas(draw, X):
    """A formula with hinges and trees, or the mean of the ranks of some."""
    cuts = sorted({-1.0, 0.5, *X.ravel().tolist()})
    columns = st.integers(0, X.shape[1] - 1)

    def one():
        hinges = draw(st.lists(st.tuples(columns, st.sampled_from(cuts)), max_size=3, unique=True))
        trees = draw(st.lists(forests(X.shape[1], cuts), max_size=2))
        plain = draw(formulas(X.shape[1] + len(hinges) + len(trees)))
        return replace(plain, hinges=tuple(hinges), trees=tuple(trees))

    members = [one() for _ in range(draw(st.integers(1, 3)))]
    if len(members) == 1 and draw(st.booleans()):
        return members[0]
    knots = [draw(calibrations(member(X), most=40)) for member in members]
    return RankMean(tuple(members), tuple(np.array([k.score, k.uplift]) for k in knots))


@st.composite
def calibrations(draw, scores, most=0):
    """Knots around the scores, so that every branch is taken; some lie on a score."""
    middle = float(np.median(scores))
    steps = draw(st.lists(st.floats(0.01, 2.0), min_size=0, max_size=4))
    shifts = np.cumsum([draw(st.sampled_from([0.0, -1.0, 0.5])), *steps])
    more = middle + shifts[-1] + np.arange(1, draw(st.integers(0, most)) + 1) / 8
    knots = sorted({*(middle + shifts).tolist(), *more.tolist()})
    rises = draw(st.lists(st.floats(0, 0.2), min_size=1, max_size=5))
    rises = np.resize(rises, len(knots))
    uplifts = np.cumsum([-0.1, *rises])[1:]
    return Calibration(tuple(knots), tuple(uplifts.tolist()), 0.0, 100, 50, 10)


def example(bent=False):
    """One fixed table with all of it; ``bent``: hinges, trees and ranks as well."""
    kinds = {'a"ge': "number", "to'wn": "category", "vip": "boolean", "joined": "date"}
    train = {
        'a"ge': [20.0, 30.0, None, 40.0, 50.0, 60.0, None],
        "to'wn": ["Os'lo", "Os'lo", "", "", None, "rare", "rarer"],
        "vip": [True, False, None, True, True, False, None],
        "joined": [datetime(2020 + k % 2, 1 + k, 3 * k + 1, 3 * k) for k in range(7)],
    }
    new = {
        'a"ge': [25.5, None, math.nan, 1e300, -7.0, 33.0],
        "to'wn": ["Os'lo", "", None, "rare", "never seen", "os'lo"],
        "vip": [True, False, None, True, None, False],
        "joined": [None, datetime(1969, 7, 20, 20, 17, 40), *[datetime(2024, 2, 29)] * 4],
    }
    encoder = fit_encoder(kinds, train)
    rng = np.random.default_rng(0)
    coefs = rng.normal(size=(3, len(encoder.terms_))) * 0.01
    coefs[:, date_of(encoder)] *= 1e-3  # so that sigmoids are not all 0 or 1
    parts = (
        Part(1.0, "sigmoid", 0.3, coefs[0]),
        Part(-1.0, "sigmoid", -0.2, coefs[1]),
        Part(0.5, "identity", 0.1, coefs[2]),
    )
    calibration = Calibration((-0.2, 0.0, 0.3), (0.01, 0.02, 0.02), 0.015, 100, 50, 10)
    formula = bent_example(parts, date_of(encoder)) if bent else Formula(parts)
    return Case(kinds, new, encoder, formula, calibration)


def date_of(encoder):
    """The feature that is the days of the date."""
    kinds = [(term.kind, term.column) for term in encoder.terms_]
    assert ("cosine", "joined") in kinds
    return kinds.index(("value", "joined"))


@cache
def fitted_ensemble(n=1_500):
    """Raw rows of all kinds, their encoder, an ensemble that was fitted, and their scores."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "town": rng.choice(["Oslo", "Rome", "it's", None], n),
            "vip": rng.random(n) < 0.5,
            "joined": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 10**14, n), "us"),
            "spent": rng.gamma(2, 30, n).round(2),
            "zip": rng.choice([f"{k:03d}" for k in range(50)], n),
        }
    )
    frame.loc[rng.random(n) < 0.1, ["age", "joined", "zip"]] = [np.nan, None, None]
    treated = rng.random(n) < 0.5
    effect = np.where((frame["age"] < 45) & (frame["town"] != "Rome"), 0.4, 0.0)
    effect += 0.5 * frame["zip"].str.endswith(("1", "4", "7")).eq(True)
    y = rng.random(n) < 0.1 + effect * treated + 0.3 * (frame["zip"] < "020")
    encoder = TableEncoder(min_level_rows=5)
    learnt = encoder.fit_transform(frame, y, treatment=treated)
    assert {"sine", "cosine", "base", "effect"} <= {term.kind for term in encoder.terms_}
    features = encoder.transform(frame)
    boosted = BoostedEffect(base_rounds=(40,), effect_rounds=(20,))
    model = UpliftEnsemble([ShrunkInteractions(), boosted], random_state=0)
    model.fit(learnt, y, treatment=treated)
    return frame, encoder, model.formula(), model.predict(features)


def bent_example(parts, days):
    """The mean rank of two formulas: one with hinges and trees, one with trees alone."""
    leaf = [1, 0, 0]  # a stump whose node 1 is what goes left
    stumps = [
        TreeScores(
            np.array([feature, 0, 0]), np.array([cut, 0, 0]), np.array([1, 1, 2]),
            np.array([2, 1, 2]), np.array(leaf, dtype=bool), np.array([0.0, -0.25, 0.5]),
            np.array([0]), 1,
        )
        for feature, cut in ((0, 33.0), (days + 1, 0.5), (days, 19782.0))
    ]  # fmt: skip
    more = np.array([0.01, -0.02, 1.0, 0.5])
    first = tuple(replace(part, coef=np.append(part.coef, more)) for part in parts)
    second = tuple(replace(part, coef=np.append(part.coef, -1.0)) for part in parts[:2])
    hinges = ((0, 30.0), (days, 18000.0))
    members = (
        Formula(first, 0.5, hinges, tuple(stumps[:2])),
        Formula(second, trees=tuple(stumps[2:])),
    )
    ranks = np.linspace(0, 1, 100) ** 2
    scores = np.linspace(-2, 2, 100)
    return RankMean(members, (np.array([scores, ranks]), np.array([scores[::3], ranks[::3]])))


#: What the second of :func:`two_arms` costs.
COSTS = {"it's": 0.0, "b": 0.05}


def two_arms(encoder, formula, score):
    """A model of two arms by one score, and their uplifts (n, 2)."""
    low, middle, high = np.quantile(score, [0.2, 0.5, 0.8]).tolist()
    lines = [((low, middle, high), (-0.1, 0.1, 0.4)), ((low, high), (0.1, 0.2))]
    calibrations = [Calibration(at, uplift, 0.1, 100, 50, 20) for at, uplift in lines]
    scorers = tuple(scorer_of(encoder, formula, own, 0.25, -0.5) for own in calibrations)
    return Scores(roles_of("none", *COSTS), scorers), np.column_stack(
        [own(score) + 0.25 * (score + 0.5) for own in calibrations]
    )


def check_arms(found, score, uplift):
    """Rows of (number, score, uplift, score, uplift, arm)."""
    columns = list(zip(*found, strict=True))
    assert list(columns[0]) == list(range(len(uplift)))
    np.testing.assert_allclose(
        np.array(columns[1:5:2], float).T, score[:, None] + [0, 0], atol=1e-9
    )
    np.testing.assert_allclose(np.array(columns[2:5:2], float).T, uplift, rtol=0, atol=1e-9)
    net = uplift - [0.0, 0.05]
    chosen = np.where(net.max(axis=1) > 0, net.argmax(axis=1) + 1, 0)
    assert list(columns[5]) == np.array(["none", "it's", "b"])[chosen].tolist()
    assert len(set(columns[5])) > 1
