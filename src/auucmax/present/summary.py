"""``summarise``: every number and sentence of the report as one plain dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from auucmax._json import plain, read, short
from auucmax._validation import Floats, check_groups, check_rows, check_shares, check_whole
from auucmax.certificates import Certificate
from auucmax.data import RandomisationReport
from auucmax.data.binning import binned
from auucmax.data.outcomes import unit_of
from auucmax.encoding.frames import frame_of
from auucmax.model import ColumnNames, Evidence, Judged, TrialModel, evidence_of
from auucmax.model.columns import NO_AND_YES
from auucmax.model.judging import describe_drivers
from auucmax.model.people import describe_people
from auucmax.present import sentences
from auucmax.present.sentences import caveats_of, digits_for
from auucmax.targeting import Calibration, Plan
from auucmax.targeting.planning import EVERY_PERCENT, Expectation
from auucmax.targeting.policy import check_money

KIND, VERSION = "auucmax report", 6
USUAL_SHARE = 0.3  #: of the headline, and of the top that is described
_MOST_PEOPLE = 10**15  # of a cohort: all numbers of it are whole ones, to Python and to a browser
_RATIO = ("ratio", "ratio_lower", "ratio_upper")
# What the page has of an expectation.
_CURVE = ("share", "uplift", "lower", "upper", "reliable", "declined", "step")


@dataclass(frozen=True)
class Economy:
    """The cohort to be treated, what a treatment costs and what one unit of the outcome is worth.

    Without ``cost`` there is no budget, and without ``cost`` and ``value`` no profit.

    >>> Economy(cohort=100_000, cost=0.05, value=1.5, currency="USD").cohort
    100000
    """

    cohort: int = 10_000
    cost: float | None = None
    value: float | None = None
    currency: str = ""

    def __post_init__(self) -> None:
        check_whole(self.cohort, "cohort", 1, _MOST_PEOPLE)
        for name in ("cost", "value"):
            if (amount := getattr(self, name)) is not None:
                check_money(amount, name)

    @property
    def has_profit(self) -> bool:
        """Whether a profit can be told."""
        return self.cost is not None and self.value is not None


@dataclass(frozen=True)
class Names:
    """What things are called on the page: text from anywhere, shown as text.

    ``trial``: a title of the page, in place of one that names treatment and outcome; ``file``,
    ``date``: of the rows and of the fit, if they are known.
    """

    outcome: str = "the outcome"
    treatment: str = "treatment"
    treated: str = "the treatment"
    control: str = "no treatment"
    model: str = "this ranking"
    trial: str = ""
    file: str = ""
    date: str = ""

    def to_dict(self) -> dict[str, str]:
        return {name: short(text) for name, text in asdict(self).items()}


def summarise_model(
    model: TrialModel,
    evidence: Evidence | None = None,
    *,
    economy: Economy | None = None,
    share: float | None = None,
    campaign: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All numbers of the report of a fitted model, from its own evidence: no data is needed.

    ``evidence``: other than that of the fit, from ``model.judge(new rows)`` or ``with_rivals``.
    ``campaign``: what :func:`auucmax.campaign.verify` found of people whom the model chose, as a
    dictionary: the page tells what was promised and what came. Other parameters as in
    :func:`summarise`.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> found = summarise_model(model)
    >>> found["rows"]["n_rows"], len(found["curve"]["share"])
    (4000, 101)
    """
    columns = model.columns
    names = Names(
        outcome=columns.outcome,
        treatment=columns.treatment,
        treated=_arm(columns, columns.treated),
        control=_arm(columns, columns.control),
        model=model.model_name,
        **origin(model.summary),
    )
    found = summary_of(evidence or model.evidence, names=names, economy=economy, share=share)
    told = None if campaign is None else _campaign(campaign)
    return found | {"banner": found["banner"] or model.warning, "campaign": told}


def origin(summary: Mapping[str, Any]) -> dict[str, str]:
    """File and date of a fit; empty where its summary does not tell them."""
    table = summary.get("table")
    file = table.get("file") if isinstance(table, Mapping) else None
    return {"file": str(file or ""), "date": str(summary.get("date") or "")[:10]}


_NUMBER = (float, None)
_CAMPAIGN: dict[Any, Any] = {
    "told": {"title": str, "rows": {...: ...}, "notes": [str]},
    "promise": (None, {
        "promised": float, "promised_lower": _NUMBER, "promised_upper": _NUMBER, "came": float,
        "came_lower": _NUMBER, "came_upper": _NUMBER, "covers": str,
        "verdict": (str, None), ...: ...,
    }),
    "comparisons": {"as_run": {
        "estimate": _NUMBER, "certified_lower": _NUMBER,
        "certified_upper": _NUMBER, ...: ...,
    }, ...: ...},
    ...: ...,
}  # fmt: skip


def _campaign(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a verified campaign; a ValueError unless ``verify`` wrote it."""
    found = read(_CAMPAIGN, dict(values), "campaign")
    rows = read(dict.fromkeys(found["told"]["rows"], str), found["told"]["rows"], "rows")
    promise, came = found["promise"], found["comparisons"]["as_run"]
    bars, told_range = None, "Lines are intervals."
    if promise is not None:
        ends = [promise[f"promised_{end}"] for end in ("lower", "upper")]
        known = [promise[f"came_{end}"] for end in ("lower", "upper")]
        if None in known and came["estimate"] == promise["came"]:
            known = [came["certified_lower"], came["certified_upper"]]
            told_range = "The line is the certified range of what came: it has no interval."
        # A number that may be anything is not drawn.
        value = None if None in known else promise["came"]
        if value is None:
            told_range = "What came has no interval: too few rows."
        bars = {"promised": [promise["promised"], *ends], "came": [value, *known]}
    told = found["told"]
    return {
        "title": short(told["title"], 300),
        "rows": {short(name, 300): short(text, 1000) for name, text in rows.items()},
        "notes": [short(note, 1000) for note in told["notes"]],
        "bars": bars,
        "range": told_range,
        "covers": "" if promise is None else short(promise["covers"], 100),
    }


def _arm(columns: ColumnNames, label: str) -> str:
    """A label that says something by itself, or with the name of its column."""
    is_answer = (columns.control.lower(), columns.treated.lower()) in NO_AND_YES
    is_number = label in ("0", "1", "true", "false")
    return f"{columns.treatment} = {label}" if is_answer or is_number else label


def summarise(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    features: Any = None,
    groups: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    calibration: Calibration | None = None,
    rivals: Mapping[str, ArrayLike] | None = None,
    linear: Sequence[Mapping[str, Any]] | None = None,
    names: Names | None = None,
    economy: Economy | None = None,
    share: float | None = None,
    level: float = 0.95,
    certificate: Certificate | None = None,
    randomisation: RandomisationReport | None = None,
    notes: Sequence[str] = (),
    control: Any = None,
    random_state: int | Generator | None = 0,
) -> dict[str, Any]:
    """Judge a ranking on held-out rows: all numbers of the report, as plain JSON.

    Parameters
    ----------
    y, score, treatment : (n,) outcome, score (higher = treat first) and treatment of rows that
        the score was not fitted on; ``control`` names the control label if treatment is not 0/1.
    features : (n, d) raw features of the same rows, for "what drives the score".
    groups : (n,) household or shop of each row; intervals are then by group.
    propensity : (n,) chance of treatment of each row, where it was not the same for all.
    calibration : from :func:`auucmax.targeting.calibrate` on yet other rows, for the tenths.
    rivals : name to (n,) score of other rankings of the same rows.
    linear : name, coefficient and weight of the terms of a linear score, as dictionaries.
    names : :class:`Names`; economy : :class:`Economy` (cohort, cost, value).
    share : the share of the headline, a whole per cent. None: that of the highest expected profit,
        or .3 if no profit is known, or none is above zero.
    level : of all intervals.
    certificate : from :func:`auucmax.certify`; randomisation : from
        :func:`auucmax.check_randomisation`.
    notes : sentences to add at the end of the page.

    The numbers along the share are on a grid of 101 shares; their intervals hold at all of them
    together. A page is given to others: between shares at which rows are counted lie at least 20 of
    each arm, and elsewhere the numbers are on straight lines. ``version`` says how the dictionary
    is laid out.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> found = summarise(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> print(found["headline"]["text"])
    Treat the 30% with the highest scores, 3,000 of 10,000 people: the outcome changes by +2.20 per
    100 people (95% interval 1.89 to 2.50, for all shares at once).
    """
    if certificate is not None and not hasattr(certificate, "gain_lower_bound"):
        raise TypeError(
            f"certificate should come from auucmax.certify, got {type(certificate).__name__}. "
            f"Pass what it returned."
        )
    rows = check_rows(y, score, treatment=treatment, control=control, propensity=propensity)
    codes = None if groups is None else check_groups(groups, len(rows.y))
    drivers = people = None
    if features is not None:
        features = frame_of(features)
        if len(features) != len(rows.y):
            raise ValueError(
                f"features should have as many rows as y, {len(rows.y)}; got {len(features)}. "
                f"Pass the features of the held-out rows."
            )
        drivers = describe_drivers(features, rows.score, share=share or USUAL_SHARE)
        drivers |= {"linear": linear}
        people = describe_people(binned(features), rows.score, share=share or USUAL_SHARE)
    evidence = evidence_of(
        Judged(rows.y, rows.score, rows.treated, codes, rows.propensity),
        rivals=rivals,
        predicted=None if calibration is None else calibration(rows.score),
        caveat=None if calibration is None else calibration.caveat,
        drivers=drivers,
        certificate=certificate,
        randomisation=randomisation,
        level=level,
        random_state=random_state,
        people=people,
        notes=[str(note) for note in notes],
    )
    return summary_of(evidence, names=names, economy=economy, share=share)


def summary_of(
    evidence: Evidence,
    *,
    names: Names | None = None,
    economy: Economy | None = None,
    share: float | None = None,
) -> dict[str, Any]:
    """The dictionary of the page; parameters as in :func:`summarise`."""
    names, economy = names or Names(), economy or Economy()
    facts = evidence.facts
    # The slider of the page moves by whole per cents, whatever shares the evidence has kept.
    own, known = evidence.expected.share, evidence.expected.on(EVERY_PERCENT)
    found = known.plan(
        n_people=economy.cohort,
        value=1.0 if economy.value is None else economy.value,
        cost=0.0 if economy.cost is None else economy.cost,
        only_reliable=True,
    )
    at = grid_place(_first_share(found, economy) if share is None else share)
    risk = None if facts["risk"] is None else np.interp(EVERY_PERCENT, own, facts["risk"])
    summary: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "level": facts["level"],
        "names": names.to_dict() | {"gain": short(_gain(names, facts["rows"]["lower_is_better"]))},
        "failed_check": facts["failed_check"],
        "banner": facts["failed_check"],
        "rows": facts["rows"],
        "unit": _unit(known, facts["rows"]["outcome"]),
        "randomisation": facts["randomisation"],
        "effect": facts["effect"],
        "score": {"levels": facts["score_levels"]},
        "auuc": dict(facts["auuc"]),
        "curve": {name: getattr(known, name) for name in _CURVE}
        | {"random": known.share * known.uplift[-1]},
        "rivals": [
            rival | {"uplift": np.interp(EVERY_PERCENT, own, rival["uplift"])}
            for rival in facts["rivals"]
        ],
        "plan": _describe_plan(found, economy, risk),
        "headline": _headline(known, at, facts["ratio"], own, facts["failed_check"] is not None),
        "deciles": facts["deciles"],
        "drivers": facts["drivers"],
        "people": facts["people"],
        "segments": facts["segments"],
        "certificate": facts["certificate"],
        "certified_shares": facts["certified_shares"],
        "campaign": None,
        "notes": list(facts["notes"]),
    }
    return _with_sentences(dict(plain(summary)))


def _first_share(found: Plan, economy: Economy) -> float:
    """Where the slider stands first, if nobody says where."""
    return (found.best.share if economy.has_profit else 0.0) or USUAL_SHARE


def _gain(names: Names, lower_is_better: bool) -> str:
    """What there is more of if treatment works."""
    return f"{names.outcome} avoided" if lower_is_better else names.outcome


def grid_place(share: float) -> int:
    value = float(check_shares(share)[0])
    place = round(value * 100)
    if np.ndim(share) or abs(value * 100 - place) > 1e-9 or not 0 < place <= 100:
        raise ValueError(
            f"share should be one whole per cent, from 0.01 to 1; got {share!r}. "
            f"0.3 means the top 30 percent."
        )
    return place


def _unit(known: Expectation, kind: str) -> dict[str, Any]:
    scale, per = unit_of(kind)
    return {
        "scale": scale,
        "digits": digits_for(float(known.standard_error[-1]) * scale),
        "per": per,
    }


def _headline(
    known: Expectation,
    at: int,
    ratios: Sequence[Sequence[float] | None],
    own: Floats,
    is_void: bool,
) -> dict[str, Any]:
    """The numbers of the curve at a whole per cent, and the part of the whole effect there."""
    curve = {"share": known.share, "gain": known.uplift, "lower": known.lower, "upper": known.upper}
    found: dict[str, Any] = {name: values[at] for name, values in curve.items()}
    found |= dict.fromkeys(_RATIO)
    if is_void:  # the rows are not those of a trial
        found |= dict.fromkeys(("gain", "lower", "upper"))
    elif ratios[-1] is not None and known.reliable[at]:
        # Between the shares at which it was kept, a straight line.
        kept = [place for place, ratio in enumerate(ratios) if ratio is not None]
        columns = zip(_RATIO, np.array([ratios[place] for place in kept]).T, strict=True)
        found |= {name: np.interp(at / 100, own[kept], column) for name, column in columns}
    return found


def _describe_plan(found: Plan, economy: Economy, risk: Floats | None) -> dict[str, Any]:
    """The columns of a plan over the grid as lists; None where cost or value is not known.

    ``risk`` is the policy risk at the same shares (None unless the outcome is 0/1). ``best_share``
    has the highest expected profit, ``cautious_share`` the highest lower end of it, both of the
    shares at which there are rows enough; ``break_even`` is the largest share with a profit, if
    larger ones bring a loss. ``digits`` says with how many decimals the numbers are written.
    """
    table = found.table
    names = ["gain", "gain_lower", "gain_upper"]
    money = ["profit", "profit_lower", "profit_upper"]
    plan: dict[str, Any] = {name: table[name].tolist() for name in ("share", *names)}
    plan |= {name: table[name].tolist() if economy.has_profit else None for name in money}
    # Decimals by what is uncertain, not by what is large: more of them would feign precision.
    error = found.n_people * float(found.expected.standard_error.max())
    price = max(economy.cost or 0.0, (economy.value or 0.0) * error)
    plan |= {
        "cohort": found.n_people,
        "people": table["n_treated"].tolist(),
        "cost": None if economy.cost is None else table["cost"].tolist(),
        "risk": risk,
        "cost_per_person": economy.cost,
        "value_per_outcome": economy.value,
        "currency": short(economy.currency),
        "best_share": found.best.share if economy.has_profit else None,
        "cautious_share": found.cautious.share if economy.has_profit else None,
        "break_even": break_even(plan["share"], plan["profit"]),
        "population": found.population,
        "error": error / found.n_people,
        "digits": {"gain": digits_for(error), "money": 0 if price >= 20 else 2},
    }
    return dict(plain(plan))


def break_even(share: Sequence[float], profit: Sequence[float] | None) -> float | None:
    """The largest share with a profit, if there is one and all larger shares bring a loss.

    >>> break_even([0.0, 0.5, 1.0], [0.0, 2.0, -1.0]), break_even([0.0, 1.0], [0.0, 3.0])
    (0.5, None)
    """
    gains = [q for q, own in zip(share, profit or [], strict=False) if own > 0]
    return gains[-1] if gains and gains[-1] < share[-1] else None


def _with_sentences(summary: dict[str, Any]) -> dict[str, Any]:
    summary["headline"]["text"] = sentences.headline_sentence(summary)
    summary["headline"]["part"] = sentences.part_sentence(summary)
    summary["verdicts"] = sentences.verdicts_of(summary)
    summary["decision"] = sentences.told_decision(summary)
    summary["trial"] = {
        "balance": sentences.trial_sentence(summary),
        "effect": sentences.effect_sentence(summary),
    }
    summary["auuc"]["text"] = sentences.ranking_sentence(summary)
    summary["caveats"] = caveats_of(summary)
    return summary
