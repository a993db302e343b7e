"""Several arms: what options say of each, and what is told of a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli.output import between, note, print_banner, print_json, print_result, unit_for
from auucmax.cli.ranking import effect_of

if TYPE_CHECKING:
    from auucmax.model import ArmLimits, ArmsEvidence, ArmTargeting
    from auucmax.model.arm_choosing import ExpectedGain

CostOfArms = Annotated[
    str | None,
    typer.Option(
        "--cost",
        help='Of treating one person; of several arms that of each: "A=.1,B=.12".',
    ),
]
BY_VALUE = (
    "An arm goes to everybody whose own uplift is worth more than it costs. `auucmax report` with "
    "the same numbers tells what this rule brings on the rows of the trial."
)  #: by what people are chosen where neither share nor budget is given
SHOWN = (0.1, 0.3, 0.5, 1.0)  #: parts of the largest budget at which a policy is told in words


def amount_of(text: str | None, option: str) -> float | None:
    """The number that an option is given for all arms; None if it names arms, or is not there."""
    if text is None or "=" in text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{option} should be a number, or a number for each arm as in "
            f'{option} "A=.1,B=.12"; got {text!r}. Write it so.'
        ) from None


def price_of_one(text: str | None) -> float | None:
    """What treating one person costs, by ``--cost``, where there is one arm to treat with."""
    price = amount_of(text, "--cost")
    if text is not None and price is None:
        raise ValueError(f"--cost should be one number for a MODEL of two arms, got {text!r}.")
    return price


def tell_half(has_cost: bool, has_value: bool) -> None:
    """A note, if only one of cost and value is known."""
    if has_cost != has_value:
        one, other = ("--cost", "--value") if has_cost else ("--value", "--cost")
        note(f"no profit is told: {one} is there, and {other} is not. Pass both for it.")


def texts_by_arm(text: str | None, labels: Sequence[str], option: str) -> dict[str, str]:
    """What an option says of each arm it names.

    >>> texts_by_arm("a=1, b, c = 2", ["a", "b, c"], "--cost")
    {'a': '1', 'b, c': '2'}
    """
    from auucmax._validation import listed

    found: dict[str, str] = {}
    pending = ""
    for part in (text or "").split(","):
        pending = f"{pending},{part}" if pending else part
        name, equals, value = pending.rpartition("=")
        arm = _arm_called(name, labels) if equals else None
        if arm is not None:
            if arm in found:
                raise ValueError(
                    f"{option} should name each arm once, got {arm!r} twice. Leave one out."
                )
            found[arm], pending = value.strip(), ""
    if pending.strip():
        name = pending.rpartition("=")[0].strip() or pending.strip()
        raise ValueError(
            f'{option} should say something of arms, as in {option} "{labels[0]}=..."; the arms '
            f"are {listed(labels)}, got {name!r}. Check the spelling, and write decimals with a "
            f"point."
        )
    return found


def _arm_called(name: str, labels: Sequence[str]) -> str | None:
    """The label that is written so; blanks around it are hard to see."""
    alike = [label for label in labels if label == name or label.strip() == name.strip()]
    return name if name in labels else alike[0] if len(alike) == 1 else None


def numbers_by_arm(text: str | None, labels: Sequence[str], option: str) -> dict[str, float]:
    """The number that an option gives to each arm it names."""
    found = {}
    for label, value in texts_by_arm(text, labels, option).items():
        number = amount_of(value, option)
        if number is None:
            raise ValueError(f"{option} should give {label!r} a number, got {value!r}. Write one.")
        found[label] = number
    return found


def costs_by_arm(text: str | None, labels: Sequence[str]) -> dict[str, float] | None:
    """What each arm costs, by ``--cost``; None if that is not said."""
    if text is None:
        return None
    number = amount_of(text, "--cost")
    if number is not None:
        return dict.fromkeys(labels, number)
    return numbers_by_arm(text, labels, "--cost")


def verdict_of_arms(evidence: ArmsEvidence) -> str:
    """Whether giving each person an arm of their own beats the same arms for random people."""
    if evidence["failed_check"] is not None:
        return "Nothing is told of the policy: the check of the trial fails."
    certificate = evidence["certificate"]
    random = evidence["curves"][-1]["differences"]["random"]
    who = "Choosing the arm of each person"
    if certificate is not None and certificate["random_lower_bound"] > 0:
        return f"{who} beats the same arms for random people, which is certified."
    if (random["area_lower"] or 0) > 0:
        return (
            f"{who} beats the same arms for random people by its interval; this is not certified."
        )
    if (random["area_upper"] or 0) < 0:
        return f"{who} is worse than the same arms for random people."
    return f"{who} is not shown to beat the same arms for random people."


def harm_of_arms(evidence: ArmsEvidence) -> list[str]:
    """Of each arm that is shown to do harm if everybody gets it, a sentence that comes first."""
    return [f"{label}: {own.harm}" for label, own in evidence.arms.items() if own.harm]


def lines_of_arms(evidence: ArmsEvidence, gain: str) -> dict[str, str]:
    """The effect of each arm on all rows, and what choosing arms brings more than others would."""
    told = {
        label: f"effect {effect_of(own.facts, gain)}, {evidence['rows'][label]:,} rows"
        for label, own in evidence.arms.items()
        if own["failed_check"] is None
    }
    told["control"] = f"{evidence['control']}, {evidence['rows'][evidence['control']]:,} rows"
    if evidence["failed_check"] is not None:
        return told
    told |= _differences(evidence["curves"][-1], evidence)
    if certificate := evidence["certificate"]:
        digits = {"digits": 5} | unit_for(next(iter(evidence.arms.values()))["rows"])
        scale = digits.get("scale", 1)
        told["certified"] = (
            f"at least {certificate['random_lower_bound'] * scale:+.{digits['digits']}f} over "
            f"random people with the same arms, at one budget, with probability "
            f"{1 - certificate['delta']:.4g}"
        )
    return told


def told_of_arms(evidence: ArmsEvidence) -> dict[str, str]:
    """A line for each arm, and what the policy gains."""
    told = {"control": f"{evidence['control']}, {evidence['rows'][evidence['control']]:,} rows"}
    for label, own in evidence.arms.items():
        line = f"{evidence['rows'][label]:,} rows"
        if own["failed_check"] is None:
            rows, auuc = own["rows"], own["auuc"]
            ends = "estimate", "lower", "upper"
            of_effect, unit = unit_for(rows, 4), unit_for(rows)
            line += f"; effect {between(own['effect'], *ends, **of_effect, sign=True)}"
            line += f"; AUUC {between(auuc, *ends, **unit)}, over a random order "
            line += between(auuc, "gain", "gain_lower", "gain_upper", **unit, sign=True)
            line += f"; {_certified(own['certificate'], unit)}"
        told[label] = line
    if evidence["failed_check"] is None:
        told |= _policy(evidence["curves"][-1], evidence)  # at the costs of the fit, if it had some
    certificate = evidence["certificate"]
    return told | {"certificate of the policy": (certificate or {"text": "none"})["text"]}


def _certified(certificate: Mapping[str, Any] | None, unit: Mapping[str, Any]) -> str:
    if certificate is None:
        return "no certificate"
    gain = certificate["gain_lower_bound"] * unit.get("scale", 1)
    chance = 1 - certificate["delta"]
    return f"certified gain over a random order at least {gain:+.{unit['digits']}f} ({chance:.0%})"


def _policy(curve: Mapping[str, Any], evidence: ArmsEvidence) -> dict[str, str]:
    """What a policy gains at some budgets, and against others on average over all."""
    costs, budgets = curve["costs"], curve["budget"]
    by_people = set(costs.values()) == {1.0}
    priced = ", ".join(f"{label} {cost:g}" for label, cost in costs.items())
    unit = unit_for(next(iter(evidence.arms.values()))["rows"])
    told = {} if by_people else {"costs": priced}
    for place in sorted({_nearest(budgets, part * budgets[-1]) for part in SHOWN}):
        found = {n: curve["policy"][n][place] for n in ("gain", "lower", "upper")}
        if not budgets[place] or found["gain"] is None:
            continue
        budget = (
            f"{budgets[place]:.0%} of people" if by_people else f"{budgets[place]:.4g} per person"
        )
        shares = zip(costs, curve["policy"]["shares"][place], strict=True)
        who = ", ".join(f"{label} to {share:.0%}" for label, share in shares)
        found["declined"] = curve["policy"]["declined"]
        gain = between(found, "gain", "lower", "upper", **unit, sign=True)
        told[f"policy, {budget}"] = f"gains {gain} per person over nobody; {who}"
    return told | _differences(curve, evidence)


def _differences(curve: Mapping[str, Any], evidence: ArmsEvidence) -> dict[str, str]:
    """What a policy gains more than others do, on average over all budgets."""
    told, unit = {}, unit_for(next(iter(evidence.arms.values()))["rows"])
    names = {
        "random": "random people with the same arms",
        "single": "{} alone, by its ranking",
        "everybody": "{} for everybody",
    }
    for name, found in curve["differences"].items():
        if found["area"] is None:
            continue
        area = between(found, "area", "area_lower", "area_upper", **unit, sign=True)
        by = "" if found["arm"] is None else "; chosen on these rows, in its favour"
        told[f"policy, against {names[name].format(found['arm'])}"] = f"{area} over all budgets{by}"
    return told


def _nearest(budgets: Sequence[float], amount: float) -> int:
    return min(range(len(budgets)), key=lambda k: abs(budgets[k] - amount))


def as_json(evidence: ArmsEvidence, summaries: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All numbers, for machines: judgements of rows that fail their check under such a name."""
    from auucmax.model.evidence import told

    arms = {
        label: own.told() | (summaries or {}).get(label, {}) for label, own in evidence.arms.items()
    }
    return {"failed_check": evidence["failed_check"], "arms": arms, "policy": told(evidence.facts)}


def limits_of(
    labels: Sequence[str],
    cost: str | None,
    cost_column: str | None,
    at_most: str | None,
    at_least: str | None,
    forbid: str | None,
) -> ArmLimits:
    """What the options of ``target`` ask of arms."""
    from auucmax.model import ArmLimits

    def columns(text: str | None, option: str) -> dict[str, str] | None:
        return None if text is None else texts_by_arm(text, labels, option)

    return ArmLimits(
        cost=costs_by_arm(cost, labels),
        cost_column=columns(cost_column, "--cost-column"),
        at_most=numbers_by_arm(at_most, labels, "--at-most") or None,
        at_least=numbers_by_arm(at_least, labels, "--at-least") or None,
        forbid=columns(forbid, "--forbid"),
    )


def tell_choice(
    found: ArmTargeting, gain: str, output: Path, as_json: bool, by_value: bool
) -> None:
    """What ``target`` says of a choice of arms; ``by_value``: neither share nor budget chose."""
    from auucmax.model.choosing import repeated_ids

    if as_json:
        print_json(found.to_dict() | {"file": str(output)})
        return
    print_banner(found.failed_check)
    choice = found.choice
    treated = str(choice)
    if not found.has_cost:
        treated = treated.replace(f", cost {choice.cost:,.2f}", "", 1)
    rows = {"treated": treated}
    rows |= {label: f"{n:,} people" for label, n in zip(found.labels, choice.counts, strict=True)}
    if found.expected is not None and not found.nobody:
        rows[f"expected gain in {gain}"] = _ends(found.expected)
    # Uplifts of people unlike the trial's are a promise as well, and the trial tells nothing of it.
    if found.failed_check is None and not found.nobody and not found.is_unlike:
        rows["sum of the uplifts"] = f"{choice.uplift:,.1f}"
    if found.profit is not None and not found.nobody:
        rows["expected profit"] = _ends(found.profit)
    left_out = None if found.excluded is None else str(found.excluded)
    unknown = None if found.failed_check else found.unknown
    twice = repeated_ids(found.repeated)
    rule = BY_VALUE if by_value else None
    told = (found.assumed, left_out, twice, found.of_nameless, unknown, found.caution, rule)
    print_result(
        str(found).split("\n")[0], rows, cautions=[note for note in told if note],
        written=[written(found.decision.state, output)],
    )  # fmt: skip


def written(state: str, output: Path) -> str:
    """That a list is written, also of people whom treating is shown to harm."""
    return f"Written to {output}{', as asked' if state in ('harm', 'loss') else ''}."


def _ends(gain: ExpectedGain) -> str:
    if not math.isfinite(gain.lower):
        return f"{gain.gain:,.1f} (interval cannot be said: too few rows of the trial)"
    return f"{gain.gain:,.1f} ({gain.lower:,.1f} to {gain.upper:,.1f})"
