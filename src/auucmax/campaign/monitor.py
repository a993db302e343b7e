"""May we stop now? Bounds on a running trial that hold at every look."""

from __future__ import annotations

from enum import StrEnum

from auucmax.results import Estimate, Outcome, Result


class Verdict(StrEnum):
    """What a look shows, in the order in which it is asked. Each holds at all looks together."""

    STOP_FAILED_RATIO = "the arms do not have the planned sizes"  #: no bounds are given
    STOP_FAILED_BOUNDS = "the bounds contradict each other"  #: no bounds are given
    HARM = "harm"  #: the average effect is below 0
    EFFECT_SHOWN = "effect shown"  #: the average effect is above 0
    GAIN_SHOWN = "gain shown"  #: the score gains over random targeting
    LOSS_SHOWN = "loss shown"  #: the score loses against random targeting
    CONTINUE = "continue"  #: nothing is shown yet
    TOO_EARLY = "too early"  #: too few rows for any bound

    @property
    def is_failure(self) -> bool:
        """Whether the trial is broken: nothing is known of the treatment."""
        return self in (Verdict.STOP_FAILED_RATIO, Verdict.STOP_FAILED_BOUNDS)

    @property
    def is_stop(self) -> bool:
        """Whether the trial may be stopped, once ``check`` on all rows has passed."""
        return self not in (Verdict.CONTINUE, Verdict.TOO_EARLY)


class Stop(Result):
    """The first look at which something was shown, of ``arm`` unless the trial failed."""

    verdict: Verdict
    arm: str | None
    until: str
    n_rows: int


class ArmLook(Result):
    """One arm against the control, per person and in units of the outcome as a benefit.

    ``effect``: the average effect; ``gain``: of treating by the score, over random targeting (its
    AUUC less half of the effect). Both have ``lower`` and ``upper``, and no standard error. None
    before the first bound, for a trial that failed, and ``gain`` without a score. ``n_bet``: rows
    behind the bounds; the rest waits until a batch of 240 is full.
    """

    arm: str
    verdict: Verdict
    n_rows: int
    n_bet: int
    effect: Estimate | None = None
    gain: Estimate | None = None


class Look(Result):
    """What a running trial shows at a look.

    Attributes
    ----------
    verdict : the first verdict that holds for any arm.
    arms : one :class:`ArmLook` per arm.
    control : label of the control.
    outcome : the outcome; bounds of a ``lower_is_better`` outcome are of what is avoided.
    until : the last day whose rows have entered, as "2026-03-01"; None if there is none.
    n_rows, n_new, n_waiting : rows that have entered, those of them at this look, and rows whose
        outcome window is still open.
    n_clipped : outcomes beyond the range.
    counts : people (groups, if there are any) of the control and of each arm.
    shares : their planned shares; None if they are not known.
    ratio_p_value : smallest p-value so far of the planned sizes (or propensities), valid at every
        look; None if they are not known.
    delta : probability that any bound of any arm ever fails.
    score : the column of scores, or "model"; None without.
    groups : the column of groups.
    stops : what was shown, at this look or before, the earliest first.
    skipped : days without any row although others like them have many.
    needs_check : something is shown. Before it is acted on, run ``check`` on all rows.
    """

    verdict: Verdict
    arms: tuple[ArmLook, ...]
    control: str
    outcome: Outcome
    until: str | None
    n_rows: int
    n_new: int
    n_waiting: int
    n_clipped: int
    counts: tuple[int, ...]
    shares: tuple[float, ...] | None
    ratio_p_value: float | None
    delta: float
    score: str | None
    groups: str | None
    stops: tuple[Stop, ...]
    skipped: tuple[str, ...]

    @property
    def needs_check(self) -> bool:
        """Whether something is shown that ``check`` on all rows should precede."""
        return any(not stop.verdict.is_failure for stop in self.stops)
