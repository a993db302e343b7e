"""The state file of a monitor: what is kept between two looks, of one arm or of several.

A file may come from anywhere: numbers that no monitor has are refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax._validation import check_level, check_range, check_whole
from auucmax.campaign.arm_balance import TILTS, ArmBalance
from auucmax.campaign.settings import MOST_DAYS, Settings
from auucmax.certificates.anytime import AnytimeBets, Known, WaitingRows, Wealth
from auucmax.data.randomisation_report import STOP

locks: Any = None
with suppress(ImportError):  # Windows has none
    import fcntl

    locks = fcntl

if TYPE_CHECKING:
    from auucmax.campaign.monitoring import Monitor

FORMAT = ArchiveFormat(
    "auucmax monitor", 4, "state file",
    "end this trial with it, or begin a new state file; what was known stays with the old one",
    "put back a copy of the state, or begin a new state file",
)  # fmt: skip
_WAITS = 200  # twentieths of a second, for another run that writes


def write_states(
    path: str | os.PathLike[str],
    monitors: Sequence[Monitor],
    shared: Mapping[str, Any] | None = None,
    *,
    before: str | None = None,
) -> str:
    """Write the states of some arms, and what they ``share``, whole or not at all; private.

    A file that is another than ``before`` (its digest) is not replaced: what another run found in
    the meantime, a stop say, would be lost. Returns the digest of what is written.
    """
    members, headers = dict[str, Any](), []
    for number, monitor in enumerate(monitors):
        header, arrays = _parts(monitor)
        headers.append(header)
        members |= {f"{number}.{name}.npy": array for name, array in arrays.items()}
    with _one_writer(Path(path)):
        if Path(path).is_file() and state_digest(path) != before:
            raise ValueError(
                f"{Path(path).name} should be as it was when this look began, got another state: "
                f"another run has written it, or it is of another trial. Nothing was written: look "
                f"again, one run at a time."
            )
        FORMAT.write(path, {"states": headers, "shared": shared}, members, private=True)
        return state_digest(path)


@contextmanager
def _one_writer(path: Path) -> Iterator[None]:
    """No other run writes the file between its comparison and its replacement.

    The folder of the file is locked, for a file that is replaced has no lock of its own. The system
    gives the lock back whatever ends a run; where it has no such locks, nobody waits.
    """
    folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)  # not that of a link
    try:
        for left in reversed(range(_WAITS)) if locks is not None else ():
            try:
                locks.flock(folder, locks.LOCK_EX | locks.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise ValueError(
                        f"{path.name} should be written by one run at a time, got another one that "
                        f"is writing to its folder. Nothing was written: look again."
                    ) from None
                time.sleep(0.05)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(folder)


def state_digest(path: str | os.PathLike[str]) -> str:
    """What tells the contents of a state file from others."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def read_states(
    path: str | os.PathLike[str],
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Fields of the monitors whose states are in a file, and what they share; None for one arm."""
    return FORMAT.read(path, _restored)


def _parts(monitor: Monitor) -> tuple[dict[str, Any], dict[str, Any]]:
    bets, settings = monitor.bets, monitor.settings
    header = {
        "settings": asdict(settings)
        | {name: [*getattr(settings, name)] for name in ("outcome_range", "others")},
        "key": monitor.key.hex(),
        "counts": [*monitor.counts],
        "starts": [*monitor.starts],
        "known": None if bets.known is None else asdict(bets.known),
        "bets": [bets.n_superblocks, bets.n_blocks, bets.n_rows],
        "alike": None if monitor.alike is None else {
            name: getattr(monitor.alike, name) for name in _ALIKE
        },
        **{name: getattr(monitor, name) for name in _OWN_NUMBERS},
    }  # fmt: skip
    arrays = {name: getattr(monitor, name) for name in _OWN_ARRAYS}
    alike = monitor.alike or ArmBalance.of([])
    arrays |= {f"alike_{name}": getattr(alike, name) for name in _ALIKE_ARRAYS}
    arrays |= {"credit": bets.wealth.credit, "staked": bets.wealth.staked, "sums": bets.sums}
    return header, arrays | bets.waiting._asdict()


def _restored(
    header: dict[str, Any], members: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    plain = read({"states": [{...: ...}], "shared": (None, _SHARED)}, header, "the state")
    check_same_names("fields", set(header), {"states", "shared"})
    names = {f"{k}.{name}.npy" for k in range(len(plain["states"])) for name in _ARRAYS}
    check_same_names("members", set(members), names)
    states = [
        _restored_one(own, {name: members[f"{number}.{name}.npy"] for name in _ARRAYS})
        for number, own in enumerate(plain["states"])
    ]
    _check_shared(states, plain["shared"])
    return states, plain["shared"]


def _restored_one(header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    plain = read(_HEADER, header, "the state")
    check_same_names("fields", set(header), set(_HEADER))
    settings = read(Settings, plain["settings"], "settings")
    _check_restored(settings, plain)
    fresh = fresh_bets(settings)
    _check_arrays(settings, plain, arrays, fresh)
    n_superblocks, n_blocks, n_rows = plain["bets"]
    bets = replace(
        fresh,
        known=plain["known"],
        n_superblocks=n_superblocks,
        n_blocks=n_blocks,
        n_rows=n_rows,
        wealth=Wealth(arrays["credit"], arrays["staked"]),
        sums=arrays["sums"],
        waiting=WaitingRows(*(arrays[name] for name in WaitingRows._fields)),
    )
    _check_waiting(bets, int(arrays["day_rows"].sum()))
    return {
        "settings": settings,
        "key": bytes.fromhex(plain["key"]),
        "bets": bets,
        "counts": tuple(plain["counts"]),
        "starts": tuple(plain["starts"]),
        "alike": _restored_alike(settings, plain, arrays),
        **{name: plain[name] for name in _OWN_NUMBERS},
        **{name: arrays[name] for name in _OWN_ARRAYS},
    }


def _check_waiting(bets: AnytimeBets, n_rows: int) -> None:
    """Raise a ValueError for more waiting rows than have come, or than a superblock leaves open."""
    waiting = len(bets.waiting.y)
    if waiting + bets.n_rows > n_rows or not bets.is_open:
        raise ValueError(
            f"{waiting:,} rows wait to be bet on, more than {n_rows:,} rows of such arms leave"
        )


def _check_shared(states: Sequence[dict[str, Any]], shared: dict[str, Any] | None) -> None:
    """Raise a ValueError for arms that are not of one state."""
    n = len(states)
    right = n == 1 if shared is None else n > 1
    right = right and all(own["n_together"] == n for own in states)
    if shared is not None and right:
        first, shares = states[0], shared["shares"]
        check_level(shared["delta"], "delta")
        own = ("treatment", "outcome", "date", "control", "id", "window", "outcome_range", "groups")
        right = (
            len({one["settings"].treated for one in states}) == n
            and all(one["key"] == first["key"] for one in states)
            and all(one["last_day"] == first["last_day"] for one in states)
            and all(one["counts"][0] == first["counts"][0] for one in states)
            and all(np.isclose(one["settings"].delta * n, shared["delta"]) for one in states)
            and all(
                getattr(one["settings"], name) == getattr(first["settings"], name)
                for one in states
                for name in own
            )
            and (shares is None or (len(shares) == n + 1 and min(shares) > 0))
            and (shares is None or abs(sum(shares) - 1) < 1e-6)
        )
    if not right:
        raise ValueError("its numbers do not belong together")


_SHARED: dict[str, Any] = {
    "delta": float, "shares": (None, [float]), "log_ratio": float,
    "score_column": (None, str), "rival_column": (None, str),
}  # fmt: skip
_HEADER: dict[str, Any] = {
    "settings": {...: ...}, "key": str, "last_day": (int, None), "counts": [int],
    "log_ratio": float, "n_beyond": int, "starts": [int], "known": (None, Known), "bets": [int],
    "n_together": int, "n_checks": int, "checked_rows": int, "balance": (None, str),
    "alike": (None, {...: ...}), "log_uneven": float,
    "stopped": (None, str),
}  # fmt: skip
_OWN_NUMBERS = (
    "last_day", "log_ratio", "n_beyond", "n_together", "n_checks", "checked_rows", "balance",
    "log_uneven", "stopped",
)  # fmt: skip
_ARRAYS: dict[str, Any] = {
    "day": np.int64, "day_rows": np.int64, "day_totals": np.uint64, "people": np.uint64,
    "homes": np.uint64, "tilts": np.float64, "credit": np.float64, "staked": np.float64,
    "sums": np.float64, "y": np.float64, "scores": np.float64, "treated": np.bool_,
    "first": np.bool_, "chance": np.float64,
    "alike_counts": np.int64, "alike_tilts": np.float64, "alike_values": np.float64,
    "alike_treated": np.bool_, "alike_chance": np.float64, "alike_capital": np.float64,
    "alike_totals": np.int64,
}  # fmt: skip
_ALIKE: dict[str, Any] = {
    "names": [str], "levels": [(int, None)], "edges": [(None, [float])],
    "log_days": float, "n_changes": int,
}  # fmt: skip
_ALIKE_ARRAYS = ("counts", "tilts", "values", "treated", "chance", "capital", "totals")
_OWN_ARRAYS = ("day", "day_rows", "day_totals", "people", "homes", "tilts")


def fresh_bets(settings: Settings) -> AnytimeBets:
    """Bets before the first row."""
    n_scores = 1 + (settings.rival_column is not None)
    return AnytimeBets.fresh(n_scores, settings.random_state, settings.least_chance)


def _restored_alike(
    settings: Settings, plain: dict[str, Any], arrays: dict[str, Any]
) -> ArmBalance | None:
    """What was counted of people by columns and arms."""
    own = {name: arrays[f"alike_{name}"] for name in _ALIKE_ARRAYS}
    if plain["alike"] is None:
        if sum(plain["counts"]):
            raise ValueError("its numbers do not belong together")
        return None
    named = read(_ALIKE, plain["alike"], "columns")
    edges = tuple(None if cut is None else tuple(cut) for cut in named.pop("edges"))
    names, levels = tuple(named.pop("names")), tuple(named.pop("levels"))
    alike = ArmBalance(names, levels, settings.propensity is not None, edges, **own, **named)
    if not (alike.is_sound and _counts_agree(alike, plain) and _tells_of_a_stop(alike, plain)):
        raise ValueError("its numbers do not belong together")
    return alike


def _tells_of_a_stop(alike: ArmBalance, plain: dict[str, Any]) -> bool:
    """Whether what is counted had no reason to stop the trial, or the state says that it did."""
    found = max(alike.log_evidence, plain["log_uneven"])
    level = STOP / plain["n_together"]
    return plain["stopped"] is not None or found < -np.log(level) + 1e-6


def _counts_agree(alike: ArmBalance, plain: dict[str, Any]) -> bool:
    """Whether as many are counted by each column as entered, or since a model brought it."""
    entered = np.array(plain["counts"])
    is_first = alike.n_changes == 0
    return (
        alike.n_changes < len(plain["starts"])
        and bool((alike.totals == entered).all())
        and all(
            bool((own == entered).all() if is_first else (own <= entered).all())
            for own in alike.units
        )
    )


def _check_restored(settings: Settings, plain: dict[str, Any]) -> None:
    """Raise a ValueError for numbers that no monitor has: a file may come from anywhere."""
    check_level(settings.delta, "delta")
    if settings.treated_share is not None:
        check_level(settings.treated_share, "treated_share")
    if not 0 <= settings.window < MOST_DAYS:
        raise ValueError(f"window should be days, fewer than {MOST_DAYS}, got {settings.window!r}")
    check_range(settings.outcome_range, "outcome_range")
    check_whole(settings.random_state, "random_state", 0)
    least = settings.least_chance
    known, counts, bets = plain["known"], plain["counts"], plain["bets"]
    means = () if known is None else known.means
    right = (
        re.fullmatch("[0-9a-f]{32}", plain["key"]) is not None
        and (len(counts), len(bets)) == (2, 3)
        and min(*counts, *bets, plain["n_beyond"]) >= 0
        and min(plain["n_checks"], plain["checked_rows"], plain["n_together"] - 1) >= 0
        and (plain["balance"] is None) == (plain["n_checks"] == 0)
        and (least is None) == (settings.propensity is None)
        and (least is None or 0 < least <= 0.5)
        and len(means) == (2 if least is not None and known is not None else 0)
        and all(0 < own < 1 for own in means)
        and plain["log_uneven"] >= 0
        and plain["stopped"] != ""
        and plain["starts"][:1] == [0]
        and sorted(plain["starts"]) == plain["starts"]
        and plain["starts"][-1] <= bets[1]
        and bets[0] <= bets[1] <= bets[2]
        and (plain["last_day"] is None or abs(plain["last_day"]) < 2**31)
        and (known is not None or not any(bets))
        and (known is None or (0 <= known.shift <= 1 and abs(known.effect) <= 0.5))
        and (known is None or min(known.deviations, default=0.0) > 0)
    )
    if not right:
        raise ValueError("its numbers do not belong together")


def _check_arrays(
    settings: Settings, plain: dict[str, Any], arrays: dict[str, Any], fresh: AnytimeBets
) -> None:
    """Raise a ValueError for arrays that no monitor of these settings has."""
    y, people, day = (arrays[name] for name in ("y", "people", "day"))
    homes, n_units, n_rows = arrays["homes"], sum(plain["counts"]), int(arrays["day_rows"].sum())
    wealth = [arrays[name] for name in ("credit", "staked", "sums")]
    right = (
        all(arrays[name].dtype == kind for name, kind in _ARRAYS.items())
        and y.ndim == people.ndim == day.ndim == 1
        and wealth[0].shape == wealth[1].shape == fresh.wealth.credit.shape
        and wealth[2].shape == fresh.sums.shape
        and bool((wealth[1] >= 0).all())
        and (any(plain["bets"]) or not any(array.any() for array in wealth))
        and arrays["scores"].shape == (fresh.n_scores, len(y))
        and all(arrays[name].shape == y.shape for name in ("treated", "first", "chance"))
        and bool(arrays["first"][:1].all())
        and bool(((arrays["chance"] > 0) & (arrays["chance"] < 1)).all())
        and arrays["tilts"].shape == TILTS.shape
        and bool(((y >= 0) & (y <= 1)).all())
        and day.shape == arrays["day_rows"].shape == arrays["day_totals"].shape
        and bool((np.diff(day) > 0).all())
        and bool((arrays["day_rows"] > 0).all())
        and max(plain["n_beyond"], plain["bets"][2], n_units, plain["checked_rows"]) <= n_rows
        and (settings.groups is not None or n_units == n_rows)
        and len(homes) == (n_units if settings.groups is not None else 0)
        and bool((homes[1:] >= homes[:-1]).all())
        and len(people) == (n_rows if settings.id is not None else 0)
        and bool((people[1:] >= people[:-1]).all())
        and (plain["known"] is None or len(plain["known"].deviations) == fresh.n_targets)
    )
    if not right:
        raise ValueError("its numbers do not belong together")
