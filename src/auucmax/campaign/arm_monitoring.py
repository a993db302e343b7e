"""A running trial of several arms in one state: each arm against the control, all of them together.

Each arm has a :class:`Monitor` of its own, of its rows and those of the control, with delta over
the number of arms: all bounds of all arms, at all looks, fail with a probability of delta at most.
The sizes of all arms are watched together.
"""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import gammaln

from auucmax._shown import Shown
from auucmax._validation import Floats, check_level, control_among, listed
from auucmax.campaign.arm_balance import RATIO_ROWS
from auucmax.campaign.monitor_state import fresh_bets, read_states, state_digest, write_states
from auucmax.campaign.monitoring import RATIO_LEVEL, Look, Monitor, guarantee, untested
from auucmax.campaign.settings import check_settings, labels_of, model_name, settings_of
from auucmax.data.randomisation_report import FailedCheckError
from auucmax.data.reading import table_of
from auucmax.encoding.kinds import arm_text
from auucmax.model import ArmsModel, TrialModel
from auucmax.model.columns import check_named

AnyModel = TrialModel | ArmsModel


@dataclass(frozen=True, repr=False)
class ArmsLook(Shown):
    """What is known of each arm at a look; every bound of all arms holds at all looks together.

    ``ratio``: the smallest anytime p-value of the sizes of all arms so far, None if no shares were
    named; ``failed`` says why nothing is told, or is None.
    """

    arms: dict[str, Look]
    delta: float
    ratio: float | None
    failed: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        arms = {label: look.to_dict() for label, look in self.arms.items()}
        return {"arms": arms, "delta": self.delta, "ratio": self.ratio, "failed": self.failed}

    @property
    def verdict(self) -> str:
        """In some sentences, what may be acted on."""
        if self.failed is not None:
            return self.failed
        found = " ".join(f"{label}: {look.found}" for label, look in self.arms.items())
        if all(look.bounds is None for look in self.arms.values()):
            return found
        return f"{found} {guarantee(self.delta, ' of all arms')}"

    @property
    def n_beyond(self) -> int:
        """Outcomes that were clipped, those of the control once for each arm at the most."""
        return max(look.n_beyond for look in self.arms.values())

    @property
    def title(self) -> str:
        """How many rows there are of each arm with the control, and until when."""
        first = next(iter(self.arms.values()))
        rows = ", ".join(f"{look.n_rows:,} of {label}" for label, look in self.arms.items())
        return f"Rows until {first.until}, each with the control: {rows}"

    def rows(self) -> dict[str, str]:
        """Names and bounds for a printed table."""
        if self.failed is not None:
            return {}
        return {
            f"{label}: {name}": text
            for label, look in self.arms.items()
            for name, text in look.rows().items()
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Missing days, new models, what was tested; the same of all arms is said once."""
        if self.failed is not None:
            return ()
        gap = next((look.gap for look in self.arms.values() if look.gap), None)
        found = [] if gap is None else [gap]
        waits = any(look.taken_over is False for look in self.arms.values())
        for label, look in self.arms.items():
            handover = look.handover
            if look.taken_over and waits:
                handover = "The new model ranks its rows from here on; other arms wait for it."
            told = handover, look.balance, look.compared
            found += [f"{label}: {note}" for note in told if note]
        if lacking := [label for label, look in self.arms.items() if look.balance is None]:
            compared = self.arms[lacking[0]].compared
            found.append(f"Not tested: {untested(compared, f'{listed(lacking)} and the control')}.")
        if self.ratio is None:
            found.append(
                "Not tested: whether the arms have the sizes of the design (pass "
                "treated_share=...)."
            )
        return tuple(found)

    def __str__(self) -> str:
        rows = [f"{name}: {text}" for name, text in self.rows().items()]
        return "\n".join([f"{self.title}.", *rows, self.verdict, *self.notes])


@dataclass(eq=False)
class ArmsMonitor:
    """A running trial of several arms, looked at as often as one likes.

    ``shares``: of the control and of each arm, by design, or None; ``log_ratio``: ln of the largest
    likelihood ratio against them so far. ``score_column`` and ``rival_column``: as they were named.
    """

    monitors: dict[str, Monitor]
    delta: float
    shares: tuple[float, ...] | None = None
    log_ratio: float = 0.0
    score_column: str | None = None
    rival_column: str | None = None
    written: str | None = None  # the digest of its file

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        model: ArmsModel | None = None,
        control: Any = None,
        treatment: str | None = None,
        score_column: str | None = None,
        rival_column: str | None = None,
        delta: float | None = None,
        treated_share: float | Mapping[str, float] | None = None,
        **named: Any,
    ) -> Self:
        """A monitor that has seen nothing; ``table`` only shows the labels of the arms.

        ``score_column``: of the scores of all arms, or the word with which those of each begin,
        as "score mail" and "score call"; so is ``rival_column``. ``treated_share``: by design, of
        each arm by its label, or of all together, in equal parts. Others as in
        :meth:`Monitor.of`, but for ``propensity``, which one arm can have.
        """
        table = table_of(table)
        if (arm := named.pop("treated", None)) is not None:
            raise ValueError(
                f"treated should be left out with several arms, got {arm!r}. Pass the model of "
                f"that arm, to monitor it alone, or leave it out."
            )
        if any(named.pop(name, None) is not None for name in ("propensity", "least_chance")):
            raise ValueError(
                "propensity should be left out with several arms, got a column. Monitor each arm "
                "with a state of its own: treated=LABEL and delta over the number of arms."
            )
        if model is not None:
            treatment, control = treatment or model.columns.treatment, control or model.control
            labels = model.labels
        else:
            check_named({"treatment": treatment, "outcome": named.get("outcome")})
            found = labels_of(table, str(treatment))
            control = control_among(found) if control is None else control
            labels = [label for label in found if label != arm_text(control)]
        delta = 0.05 if delta is None else delta
        check_level(delta, "delta")
        key, monitors = secrets.token_bytes(16), dict[str, Monitor]()
        for label in labels:
            own = None if model is None else model.models[label]
            settings = settings_of(
                table, own, treatment=treatment, treated=label, control=control,
                score_column=_column(table, score_column, label),
                rival_column=_column(table, rival_column, label), delta=delta / len(labels),
                **named,
            )  # fmt: skip
            others = {*settings.others, *labels} - {label}
            settings = replace(settings, others=tuple(sorted(others)))
            monitors[label] = Monitor(settings, key, fresh_bets(settings), n_together=len(labels))
        shares = None if treated_share is None else _shares(labels, treated_share)
        return cls(monitors, delta, shares, 0.0, score_column, rival_column)

    def look(
        self,
        table: Any,
        *,
        model: ArmsModel | None = None,
        new_model: ArmsModel | None = None,
        as_of: Any = None,
    ) -> ArmsLook:
        """As :meth:`Monitor.look`, of all arms; if anything is wrong with one, none is taken.

        Once treatment of one was found not to be given by chance, nothing is told of any.
        """
        if any(own.stopped is not None for own in self.monitors.values()):
            return self._tell({label: own.tell() for label, own in self.monitors.items()})
        table, monitors, looks = table_of(table), copy.deepcopy(self.monitors), dict[str, Look]()
        newly = {label: _of_arm(new_model, label) for label in monitors}
        ranked = [label for label, one in newly.items() if one is not None
                  and monitors[label].settings.score_column == model_name(one)]  # fmt: skip
        for label, monitor in monitors.items():
            own, newer = _of_arm(model, label), newly[label]
            if label in ranked and len(ranked) < len(monitors):
                # Its superblock was full at an earlier look than that of another arm.
                own, newer = newer, None
            try:
                looks[label] = monitor.look(table, model=own, new_model=newer, as_of=as_of)
            except ValueError as error:
                self.monitors[label].stopped = monitor.stopped
                error.args = (f"{label}: {error}", *error.args[1:])
                raise
        _check_people(monitors)
        self.monitors = monitors
        return self._tell(looks)

    def _tell(self, looks: dict[str, Look]) -> ArmsLook:
        """What is known of all arms, from what is known of each."""
        stopped = {label: own.stopped for label, own in self.monitors.items() if own.stopped}
        failed = " ".join(f"{label}: {text}" for label, text in stopped.items()) or None
        ratio = None
        if self.shares is not None:
            counts = self.counts
            own_ratio = ratio_of_shares(np.array(counts), np.array(self.shares))
            self.log_ratio = max(self.log_ratio, own_ratio)
            ratio = float(np.exp(-max(self.log_ratio, 0.0)))
            if ratio <= RATIO_LEVEL and failed is None:
                told = ", ".join(f"{n / sum(counts):.4g} (should be {share:.4g})"
                                 for n, share in zip(counts, self.shares, strict=True))  # fmt: skip
                failed = (
                    f"The arms are not as they should be: of {sum(counts):,}, the control and the "
                    f"arms have {told} by now (p = {ratio:.2g} at its worst, however often one "
                    f"looks). So nothing is told of the trial: find out which rows are missing."
                )
        if failed is not None:
            looks = {
                label: replace(look, bounds=None, failed=failed) for label, look in looks.items()
            }
        return ArmsLook(looks, self.delta, ratio, failed)

    @property
    def counts(self) -> tuple[int, ...]:
        """People, or households, of the control and of each arm that entered."""
        first = next(iter(self.monitors.values()))
        return first.counts[0], *(one.counts[1] for one in self.monitors.values())

    def check_settings(self, name: str, named: Mapping[str, Any]) -> None:
        """Raise a ValueError if a look says something else than the first one did."""
        given = {option: value for option, value in named.items() if value is not None}
        labels = list(self.monitors)
        if "treated" in given:
            raise ValueError(
                f"treated should be left out, for the state file {name} is of {listed(labels)}, "
                f"got {given['treated']!r}. Leave it out, or name another file."
            )
        if "treated_share" in given:
            given["treated_share"] = _shares(labels, given["treated_share"])
        known: dict[str, Any] = {
            "delta": self.delta, "score_column": self.score_column,
            "rival_column": self.rival_column, "treated_share": self.shares,
        }  # fmt: skip
        for option, value in known.items():
            if given.get(option, value) != value:
                raise ValueError(
                    f"{option} should be {value!r}, as in the state file {name}, got "
                    f"{given[option]!r}. Name another file, or leave {option}= out."
                )
        first = next(iter(self.monitors.values()))
        rest = {option: value for option, value in given.items() if option not in known}
        check_settings(first.settings, name, rest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, as :meth:`Monitor.save` does."""
        shared = {
            "delta": self.delta,
            "shares": None if self.shares is None else [*self.shares],
            "log_ratio": self.log_ratio,
            "score_column": self.score_column,
            "rival_column": self.rival_column,
        }
        own = list(self.monitors.values())
        self.written = write_states(path, own, shared, before=self.written)


def load_monitor(path: str | os.PathLike[str]) -> Monitor | ArmsMonitor:
    """The monitor whose state is in a file, of one arm or of several."""
    written = state_digest(path) if Path(path).is_file() else None
    states, shared = read_states(path)
    if shared is None:
        return Monitor(**states[0], written=written)
    monitors = [Monitor(**own) for own in states]
    shares = None if shared["shares"] is None else tuple(shared["shares"])
    by_label = {own.settings.treated: own for own in monitors}
    return ArmsMonitor(by_label, **(shared | {"shares": shares}), written=written)


def monitor_trial(
    table: Any,
    state: str | os.PathLike[str],
    *,
    model: AnyModel | None = None,
    new_model: AnyModel | None = None,
    as_of: Any = None,
    **named: Any,
) -> Look | ArmsLook:
    """One look: read the state, if there is one, take new rows, write the state, tell.

    ``named`` as in :meth:`Monitor.of`, ``new_model`` as in :meth:`Monitor.look`. What is left out
    is that of the state; what is given must be the same as before. If anything is wrong the state
    stays as it was; but that treatment was not given by chance is written into it for good. With a
    model of several arms, or a ``control`` (by name, or a label "control") and no ``treated`` arm,
    each arm is compared with the control, in the one state (:class:`ArmsMonitor`).
    """
    monitor: Any
    table = table_of(table)
    if Path(state).exists():
        monitor = load_monitor(state)
        if isinstance(monitor, ArmsMonitor):
            monitor.check_settings(Path(state).name, named)
        else:
            check_settings(monitor.settings, Path(state).name, named)
    elif isinstance(model, ArmsModel) or _names_arms(table, model, named):
        own = model if isinstance(model, ArmsModel) else None
        monitor = ArmsMonitor.of(table, model=own, **named)
    else:
        monitor = Monitor.of(table, model=model, **named)
    several = isinstance(monitor, ArmsMonitor)
    for one in (model, new_model):
        if one is not None and isinstance(one, ArmsModel) != several:
            raise ValueError(
                f"the model should be of {'several arms' if several else 'one arm'}, as the state "
                f"is, got another. Pass such a model, or name another state file."
            )
    try:
        look: Look | ArmsLook = monitor.look(table, model=model, new_model=new_model, as_of=as_of)
    except FailedCheckError:
        monitor.save(state)  # without the rows, and with what was found
        raise
    monitor.save(state)
    return look


def ratio_of_shares(counts: Floats, shares: Floats) -> float:
    """ln of the mixture over shares of the likelihood ratio against ``shares`` (A,).

    With n_a rows of arm a and a Dirichlet(c p) mixture around the shares p,

        M = B(c p + n) / (B(c p) prod over a of p_a^n_a),

    a non-negative martingale in the rows that starts at 1 if each is of arm a with probability p_a.

    >>> round(ratio_of_shares(np.array([500, 500, 500]), np.full(3, 1 / 3)), 2)
    -0.92
    """
    prior = RATIO_ROWS * shares
    grown = gammaln(prior + counts).sum() - gammaln(RATIO_ROWS + counts.sum())
    start = gammaln(prior).sum() - gammaln(RATIO_ROWS)
    return float(grown - start - counts @ np.log(shares))


def _names_arms(table: pd.DataFrame, model: AnyModel | None, named: Mapping[str, Any]) -> bool:
    """Whether a first look is of several arms: a control, no treated arm, and others than one."""
    treatment, control = named.get("treatment"), named.get("control")
    if model is not None or treatment is None or named.get("treated") is not None:
        return False
    labels = labels_of(table, treatment)
    control = control_among(labels) if control is None else arm_text(control)
    return control is not None and len({*labels} - {control}) > 1


def _column(table: pd.DataFrame, name: str | None, label: str) -> str | None:
    """The column of an arm, whose name begins with a word, or else that of all of them."""
    own = f"{name} {label}"
    return own if name is not None and own in map(str, table.columns) else name


def _shares(labels: list[str], share: float | Mapping[str, float]) -> tuple[float, ...]:
    """Of the control and of each arm."""
    if isinstance(share, Mapping):
        if set(share) != set(labels):
            raise ValueError(
                f"treated_share should name each of {listed(labels)} once, got {listed(share)}. "
                f"Name all arms but the control."
            )
        parts = [float(share[label]) for label in labels]
    else:
        parts = [float(share) / len(labels)] * len(labels)
    if not (min(parts) > 0 and sum(parts) < 1):
        raise ValueError(
            f"treated_share should be above 0 for each arm, and leave rows to the control, got "
            f"{share!r}. Write .3 for 30 per cent."
        )
    return (1 - sum(parts), *parts)


def _of_arm(model: ArmsModel | None, label: str) -> TrialModel | None:
    if model is None:
        return None
    if label not in model.models:
        raise ValueError(
            f"the model should know the arm {label!r}, as the state does, got one of "
            f"{listed(model.labels)}. Pass a model of the same arms."
        )
    return model.models[label]


def _check_people(monitors: Mapping[str, Monitor]) -> None:
    """Raise a ValueError for people who are in two arms: monitors of one arm cannot see it."""
    treated = [own.people[(own.people & np.uint64(1)) == 1] for own in monitors.values()]
    treated += [own.homes[(own.homes & np.uint64(1)) == 1] for own in monitors.values()]
    for own in (treated[: len(monitors)], treated[len(monitors) :]):
        everybody = np.concatenate(own)
        if n_twice := len(everybody) - len(np.unique(everybody)):
            raise ValueError(
                f"everybody should stay in one arm, got {n_twice:,} who are in two. Find out who "
                f"changed them: the state is as it was."
            )
