"""Which columns of a table play which part, and the rows of its two arms."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._json import read
from auucmax._validation import (
    LARGEST,
    Bools,
    Floats,
    check_outcome,
    check_range,
    listed,
    missing_message,
    unknown_columns_message,
)
from auucmax.data import RandomisationReport, Trial, check_randomisation
from auucmax.data.balance import equal_shares
from auucmax.data.chances import (
    ArmColumns,
    arm_columns,
    chances_told,
    compare_counts,
    even_rows,
    names_of,
    two_arms,
    undo_chances,
)
from auucmax.data.hashing import FINEST, content_hashes, numbers_for
from auucmax.data.outcomes import (
    BINARY,
    MONEY,
    MOST_BEYOND,
    beyond,
    outcome_kind,
    share_beyond,
)
from auucmax.data.pieces import PiecedTable, pieces_of
from auucmax.data.randomisation_report import STOP
from auucmax.data.seen import Kinds
from auucmax.encoding.encoder import TableEncoder, text_names
from auucmax.encoding.kinds import (
    MOST_CODES,
    arm_text,
    code_counts,
    kind_of,
    numbers_of,
    outcome_numbers,
)

_FEWEST_NAMED = 100  # rows, below which numbers of a feature may all differ by chance
#: Labels of control and treated that need no telling.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


@dataclass(frozen=True)
class ColumnNames:
    """Columns of the table, and the labels of the two arms, as texts."""

    treatment: str
    outcome: str
    id: str | None
    treated: str
    control: str
    features: tuple[str, ...]
    ignored: tuple[str, ...] = ()  # not learnt from, but tested as features are
    after: tuple[str, ...] = ()  # recorded after treatment: neither learnt from nor tested
    lower_is_better: bool = False
    drop_missing_outcomes: bool = False
    groups: str | None = None
    categorical: tuple[str, ...] = ()  # features whose numbers the user takes for levels
    numeric: tuple[str, ...] = ()  # and for quantities
    outcome_range: tuple[float, ...] = ()  # lowest and highest outcome that certificates count
    turn: float = 1.0  # what outcomes are subtracted from if lower is better: 1 if 0/1, otherwise 0
    # The chance of treatment of each row, where it was not the same; of several arms that of each.
    propensity: str | ArmColumns | None = None

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        more = (*self.features, self.id, self.groups, *names_of(self.propensity))
        names = dict.fromkeys(name for name in more if name is not None)
        return [self.treatment, self.outcome, *names]

    @property
    def gain(self) -> str:
        """What there is more of if treatment works."""
        return f"{self.outcome} avoided" if self.lower_is_better else self.outcome

    def in_table(self, y: Floats) -> Floats:
        """Outcomes of rows as the table has them; or, the same, those of the table as rows have."""
        return self.turn - y if self.lower_is_better else y

    def kind(self, y: Floats) -> str:
        """The kind of the outcomes of rows, as the table has them."""
        return outcome_kind(self.in_table(y))

    def bounded(self, y: Floats) -> Bounded | None:
        """What a certificate is told of outcomes: 0/1, or clipped to the range.

        None without a range, or if too much lies beyond it for what is counted to stand for all.
        """
        kind = self.kind(y)
        if kind == BINARY:
            return Bounded((0.0, 1.0), "")
        if not self.outcome_range:
            return None
        low, high = self.outcome_range
        own = self.in_table(y)
        if share_beyond(own, (low, high)) > MOST_BEYOND:
            return None
        told = beyond(own, (low, high), "money" if kind == MONEY else self.outcome)
        told = (
            f"Its numbers are {self.gain} per person, counted from {low:g} to {high:g} only. {told}"
        ).rstrip()
        ends = self.in_table(np.array([low, high]))
        return Bounded((float(ends.min()), float(ends.max())), told)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore what ``to_dict`` wrote, or raise a ValueError for anything else."""
        columns: Self = read(cls, plain, "columns")
        levels = {*columns.categorical, *columns.numeric}
        if not columns.features or not levels <= set(columns.features):
            raise ValueError("there should be features, levels and quantities among them.")
        if columns.outcome_range:
            check_range(columns.outcome_range, "outcome_range")
        if not isinstance(columns.propensity, str | None) and not all(
            len(pair) == 2 for pair in columns.propensity
        ):
            raise ValueError("chances of arms should be columns by label.")
        return columns


class Bounded(NamedTuple):
    """The range of outcomes that a certificate counts, and a sentence on what lies beyond it."""

    range: tuple[float, float]
    told: str


def name_columns(
    table: pd.DataFrame | PiecedTable,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    after: Sequence[str] | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    outcome_range: Sequence[float] | None = None,
    propensity: str | Mapping[Any, str] | None = None,
) -> ColumnNames:
    """Which columns of a table play which part; parameters as in :func:`fit_trial_model`.

    >>> frame = pd.DataFrame({"mail": ["yes", "no"], "visit": [1, 0], "age": [30, 40]})
    >>> names = name_columns(frame, treatment="mail", outcome="visit", control="no")
    >>> names.treated, names.features
    ('yes', ('age',))
    """
    if not isinstance(table, PiecedTable):
        table = text_names(table)
    treatment, outcome = str(treatment), str(outcome)
    id, groups = (None if name is None else str(name) for name in (id, groups))
    others = (treatment, outcome, id, groups)
    check_names(table, [name for name in others if name is not None])
    chances = _chances(table, treatment, propensity)
    if taken := [name for name in names_of(chances) if name in others]:
        raise ValueError(
            f"propensity should be another column than treatment, outcome, id and groups, got "
            f"{taken[0]!r}. Name the column of chances, between 0 and 1."
        )
    if groups in (treatment, outcome):
        raise ValueError(
            f"groups should be another column than treatment and outcome, got {groups!r}. Name the "
            f"column of the household, or shop."
        )
    known_after, left_out = _named(table, after), _named(table, ignore)
    if features is None:
        left_out = (*left_out, *names_of(chances))  # features only if they are named
    chosen = _features(table, features, others, {*known_after, *left_out})
    used = {*others, *chosen, *known_after, *names_of(chances)}
    return ColumnNames(
        treatment,
        outcome,
        id,
        *_arm_labels(different_values(table, treatment), treatment, treated, control),
        features=chosen,
        ignored=tuple(name for name in table.columns if name not in used),
        after=known_after,
        lower_is_better=bool(lower_is_better),
        drop_missing_outcomes=bool(drop_missing_outcomes),
        groups=groups,
        categorical=_decided(table, "categorical", categorical, chosen),
        numeric=_decided(table, "numeric", numeric, chosen),
        outcome_range=() if outcome_range is None else check_range(outcome_range, "outcome_range"),
        turn=_turn(table, outcome) if lower_is_better else 1.0,
        propensity=chances,
    )


def _chances(
    table: pd.DataFrame | PiecedTable, treatment: str, given: str | Mapping[Any, str] | None
) -> str | ArmColumns | None:
    """The column of chances, or those of several arms by label."""
    columns = [str(name) for name in table.columns]
    if given is None or (isinstance(given, str) and given in columns):
        return given
    labels = {arm_text(value) for value in different_values(table, treatment)}
    if isinstance(given, str) and (len(labels) < 3 or f"{given} " not in " ".join(columns)):
        check_names(table, [given])
    if not isinstance(given, str):
        given = {arm_text(label): str(column) for label, column in given.items()}
    return arm_columns(given, labels, columns)


def _turn(table: pd.DataFrame | PiecedTable, outcome: str) -> float:
    """1 if the outcomes of a table are 0/1, otherwise 0; of all its pieces alike."""
    values = pd.Series(different_values(table, outcome))
    with suppress(ValueError):  # which is told when the rows are read
        return float(np.isin(outcome_numbers(values).to_numpy(), (0, 1)).all())
    return 1.0


def _decided(
    table: pd.DataFrame | PiecedTable,
    option: str,
    names: Sequence[str] | None,
    features: Sequence[str],
) -> tuple[str, ...]:
    """Names of features of which the user says what they hold."""
    found = _named(table, names)
    if others := [name for name in found if name not in features]:
        raise ValueError(
            f"{option} should name columns to learn from, got {listed(others)}. Leave it out, or "
            f"name it among the features."
        )
    return found


def _arm_labels(values: Sequence[Any], name: str, treated: Any, control: Any) -> tuple[str, str]:
    """Labels of the two arms as texts; one that is not given is the other of two."""
    labels = sorted({arm_text(value) for value in values}, key=str.lower)
    given = {
        k: arm_text(v) for k, v in (("treated", treated), ("control", control)) if v is not None
    }
    for what, label in given.items():
        if label not in labels:
            raise ValueError(
                f"{what} should be one of the labels of {name!r}, {listed(labels)}; got {label!r}. "
                f"Check the spelling."
            )
    # No and yes, 0 and 1: which one is treated needs no telling.
    if not given and tuple(label.lower() for label in labels) in NO_AND_YES:
        return labels[1], labels[0]
    if len(given) == 2 and given["treated"] != given["control"]:
        return given["treated"], given["control"]
    if len(given) == 1 and len(labels) == 2:
        ((what, label),) = given.items()
        other = labels[1 - labels.index(label)]
        return (label, other) if what == "treated" else (other, label)
    raise ValueError(
        f"the treatment {name!r} should be 0/1 or boolean, or come with the labels of two arms; "
        f"got the labels {listed(labels)}. Pass treated=... and control=..., two of them; the "
        f"control alone takes all others for arms (in Python: of fit_arms_model)."
    )


def _features(
    table: pd.DataFrame | PiecedTable,
    features: Sequence[str] | None,
    others: tuple[str | None, ...],
    left_out: set[str],
) -> tuple[str, ...]:
    if features is None:
        chosen = [name for name in table.columns if name not in {*others, *left_out}]
        chosen = _without_ids(table, chosen)
    else:
        chosen = list(_named(table, features))
        if wrong := [name for name in chosen if name in others]:
            raise ValueError(
                f"features should be other columns than treatment, outcome and id, or groups, got "
                f"{listed(wrong)}. Leave them out."
            )
    chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise ValueError(
            "features should be at least one column, got none beside treatment, outcome and id. "
            "Pass a table with features."
        )
    return tuple(chosen)


def _named(table: pd.DataFrame | PiecedTable, names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names of columns that are there, each once."""
    given = [names] if isinstance(names, str) else names or ()
    found = tuple(dict.fromkeys(str(name) for name in given))
    check_names(table, list(found))
    return found


def _without_ids(table: pd.DataFrame | PiecedTable, names: list[str]) -> list[str]:
    """The columns that may be learnt from: one that names each row is an id until told otherwise.

    Texts and whole numbers that are different in every row, of 100 or more, are taken for names;
    of a table in pieces, those of the first one. A warning says which.
    """
    piece = next(iter(pieces_of(table, names)))
    ids = [name for name in names if _names_rows(piece[name])]
    if not ids or len(ids) == len(names):
        return names
    warnings.warn(
        f"{listed(ids)} should be features, got another value in every row: taken for ids, and not "
        f"learnt from. Pass features= with them to learn from them all the same.",
        UserWarning,
        stacklevel=4,
    )
    return [name for name in names if name not in ids]


def _names_rows(column: pd.Series) -> bool:
    if len(column) < _FEWEST_NAMED or not (
        isinstance(column.dtype, pd.StringDtype)
        or column.dtype == object
        or pd.api.types.is_integer_dtype(column.dtype)
    ):
        return False
    head = column.iloc[:_FEWEST_NAMED]
    try:
        return bool(head.is_unique and column.notna().all() and column.is_unique)
    except TypeError:  # lists, say
        return False


def different_values(table: pd.DataFrame | PiecedTable, column: str) -> list[Any]:
    """The values of a column that are there, each once."""
    found = [piece[column].dropna().drop_duplicates() for piece in pieces_of(table, [column])]
    return pd.concat(found).drop_duplicates().tolist()


def arm_counts(table: pd.DataFrame | PiecedTable, treatment: str) -> dict[str, int]:
    """How many rows each label of the treatment has; the label as a text."""
    if not isinstance(table, PiecedTable):
        table = text_names(table)
    check_names(table, [treatment])
    found: dict[str, int] = {}
    for piece in pieces_of(table, [treatment]):
        for value, n in piece[treatment].value_counts().items():
            label = arm_text(value)
            found[label] = found.get(label, 0) + int(n)
    return found


def check_named(given: Mapping[str, Any]) -> None:
    """Raise a ValueError unless there are names for the columns of treatment and outcome."""
    for name in ("treatment", "outcome"):
        if given.get(name) is None:
            raise ValueError(
                f"{name} should name a column, got none. Pass {name}=COLUMN, or the model, which "
                f"knows it."
            )


def check_names(frame: pd.DataFrame | PiecedTable, names: list[str]) -> None:
    """Raise a ValueError if columns are not there."""
    if unknown := [name for name in names if name not in frame.columns]:
        message = unknown_columns_message("the table", unknown, [str(c) for c in frame.columns])
        raise ValueError(message)


Hashes = NDArray[np.uint64]


class TrialRows(NamedTuple):
    """The rows of the two arms, checked; ``left_out`` counts rows of other arms by label.

    ``positions`` are their places in the table, ``first`` is that of the first among these rows.
    ``lost`` counts rows of control and treated without an outcome, which are left out.
    ``groups`` are the names of their households or shops, if there are any. ``propensity`` are
    their chances of treatment, if these differ; ``lost_chances`` those of the rows of control and
    treated without an outcome. Of two of several arms, ``chances`` (n, K + 1) are those of all,
    as columns name them, and ``people`` (n,) how many people a row stands for.
    """

    frame: pd.DataFrame
    y: Floats
    treated: Bools
    ids: NDArray[Any] | None
    positions: NDArray[np.intp]
    left_out: dict[str, int]
    first: int = 0
    lost: tuple[int, int] = (0, 0)
    groups: NDArray[Any] | None = None
    propensity: Floats | None = None
    lost_chances: tuple[Floats, Floats] | None = None
    chances: Floats | None = None
    people: Floats | None = None

    def keys(self, key: str) -> Hashes:
        """(n,) keyed hashes of the groups, the ids, or the places of the rows in the table."""
        names = self.ids if self.groups is None else self.groups
        if names is not None:
            return np.asarray(pd.util.hash_array(names, hash_key=key))
        # Places in the whole table: a control row has one key, whatever arm it is compared with.
        places = self.positions.astype(str).astype(object)
        return np.asarray(pd.util.hash_array(places, hash_key=key))

    def trial(self, columns: ColumnNames, features: Sequence[str] | None = None) -> Trial:
        """The same rows as the rest of the library takes them; with other features, if named."""
        return Trial(
            self.frame[list(columns.features if features is None else features)],
            self.y,
            self.treated.astype(np.int8),
            id=self.ids,
            name="the table",
            outcome_name=columns.gain,
            treatment_name=columns.treatment,
            arm_names=(columns.control, columns.treated),
            groups=self.groups,
            sample_weight=self.weight,
        )

    @property
    def weight(self) -> Floats | None:
        """(n,) weights that undo unequal chances of treatment; None if these are the same."""
        if self.propensity is None:
            return None
        return undo_chances(self.treated, self.propensity, self.people)

    def take(self, rows: NDArray[np.intp]) -> TrialRows:
        """The rows at some places."""
        if len(rows) == len(self.y):
            return self
        own: dict[str, Any] = {name: getattr(self, name) for name in _BY_ROW}
        kept: dict[str, Any] = {k: None if v is None else v[rows] for k, v in own.items()}
        return self._replace(frame=self.frame.iloc[rows], **kept)

    def check_sizes(self, columns: ColumnNames) -> None:
        """ValueError for a feature whose squares float64 cannot hold."""
        for name in columns.features:
            column = self.frame[name]
            if column.dtype.kind == "f" and (size := float(column.abs().max())) > LARGEST:
                raise ValueError(
                    f"column {name!r} should hold numbers of at most {LARGEST:g} in size, got "
                    f"{size:g}: squares of it cannot be computed with. Clip them, use another "
                    f"unit, or pass ignore={[name]}."
                )

    def check_copies(self, columns: ColumnNames, *, all_columns: bool = False) -> None:
        """Raise a ValueError if rows repeat each other and treatment goes with them, beyond chance.

        People who happen to have the same features are in either arm. Copies of a row are in one,
        and would be learnt from in one fold and judged in another. ``all_columns``: rows are
        compared by the columns that are not learnt from, too, but those that name rows.
        """
        # Rows of one group may be alike.
        some = np.ones(len(self.y), dtype=bool)
        if self.groups is not None:
            some = ~pd.Series(self.groups).duplicated().to_numpy()
        if self.propensity is not None:  # rows of one stratum are treated alike by design
            if compare_counts(self.treated, self.propensity).p_value < STOP:
                return  # of wrong chances, which the check tells of, nothing follows
            some &= even_rows(self.treated, self.propensity, np.random.default_rng(0))
        names = list(columns.features)
        if all_columns:
            names += [name for name in columns.ignored if not _names_rows(self.frame[name])]
        features = self.frame[names][some]
        hashes = content_hashes(numbers_for(features))[FINEST]
        kinds = Kinds.of(hashes, self.treated[some])
        if not kinds.are_together:
            return
        n = int(kinds.counts[kinds.counts > 1].sum())
        raise ValueError(
            f"rows should be different people, each treated by chance; got {n:,} rows that have "
            f"all features of another one, and treatment goes with them more than chance explains: "
            f"copies of rows, rows of one person or household, or treatment by these features. "
            f"Remove the copies, or pass groups=COLUMN, by which rows belong together, or "
            f"propensity=COLUMN, if chances of treatment differed by design."
        )


#: Arrays of :class:`TrialRows` that have an entry for each row, or are None.
_BY_ROW = "y", "treated", "ids", "positions", "groups", "propensity", "chances", "people"


def joined(pieces: list[TrialRows]) -> TrialRows:
    """The rows of several pieces of one table as one."""
    if len(pieces) == 1:
        return pieces[0]
    own: dict[str, Any] = {
        name: None if values[0] is None else np.concatenate(values)
        for name in _BY_ROW
        for values in [[getattr(piece, name) for piece in pieces]]
    }
    of_lost = [piece.lost_chances for piece in pieces if piece.lost_chances is not None]
    return TrialRows(
        frame=pd.concat([piece.frame for piece in pieces]),
        **own,
        left_out={},
        lost=(sum(piece.lost[0] for piece in pieces), sum(piece.lost[1] for piece in pieces)),
        lost_chances=None
        if not of_lost
        else (np.concatenate([of[0] for of in of_lost]), np.concatenate([of[1] for of in of_lost])),
    )


def chances_note(columns: ColumnNames, chance: Floats | None) -> list[str]:
    """A sentence on where chances of treatment come from, if a column has them; otherwise none."""
    if chance is None:
        return []
    unequal = "unequal, " if chance.min() < chance.max() else ""
    what = "Chances of treatment"
    if not isinstance(columns.propensity, str):
        what = f"Chances of {columns.treated!r}, rather than {columns.control!r},"
    return [
        f"{what} were {unequal}{chances_told(chance)}, and are taken from "
        f"{listed(names_of(columns.propensity))}: all numbers weight rows by them."
    ]


def check_trial_rows(
    rows: TrialRows,
    columns: ColumnNames,
    treated: Bools | None = None,
    **options: Any,
) -> RandomisationReport:
    """:func:`check_randomisation` of all columns that were known before treatment.

    Those that no model learns from are tested, too, and so are ids and groups that are numbers or
    dates. ``treated``: of all rows of the table, where ``rows`` are a sample of them. Others as
    there.
    """
    treated = rows.treated if treated is None else treated
    kept, labels = (int((~treated).sum()), int(treated.sum())), (columns.control, columns.treated)
    lost = {arm: (n, n + m) for arm, n, m in zip(labels, rows.lost, kept, strict=True)}
    if rows.propensity is not None:
        options["propensity"] = rows.propensity
        options["missing_propensity"] = dict(zip(labels, rows.lost_chances or (), strict=False))
    ignored = [name for name in columns.ignored if name in rows.frame.columns]
    own = dict.fromkeys(name for name in (columns.id, columns.groups) if name is not None)
    names = [name for name in own if kind_of(rows.frame[name]) in ("number", "date")]
    return check_randomisation(
        rows.trial(columns, [*columns.features, *ignored, *names]),
        missing_outcomes=lost,
        ignore=ignored,
        names=names,
        after=columns.after,
        **options,
    )


def code_columns(rows: TrialRows, columns: ColumnNames) -> list[str]:
    """Features whose whole numbers a fit takes for codes, by the rows of both arms."""
    fewest, found = TableEncoder().min_level_rows, []
    for name in columns.features:
        column = rows.frame[name]
        # What is no number, or too large for one, is told by a fit.
        with suppress(ValueError, OverflowError):
            if name not in (*columns.categorical, *columns.numeric) and kind_of(column) == "number":
                numbers = numbers_of(column, "number")
                if code_counts(numbers[~np.isnan(numbers)], fewest) is not None:
                    found.append(name)
    return found


_FEW_VALUES = 1000  # different whole numbers that may be codes all the same
_ROWS_EACH = 10


def quantity_columns(rows: TrialRows, columns: ColumnNames) -> list[str]:
    """Features of some whole numbers that repeat, as of a zip code, and are taken for quantities.

    A user who knows that they are codes can say so.
    """
    found = []
    for name in columns.features:
        column = rows.frame[name]
        if name in (*columns.categorical, *columns.numeric) or column.dtype.kind not in "iuf":
            continue
        values = column.dropna().unique()
        if MOST_CODES < len(values) <= min(_FEW_VALUES, len(column) / _ROWS_EACH) and bool(
            (values == np.rint(values)).all()
        ):
            found.append(name)
    return found


def trial_rows(frame: pd.DataFrame, columns: ColumnNames) -> TrialRows:
    """The rows of the two arms; missing treatments and ids are errors.

    So are missing outcomes, unless the columns say that these rows are to be left out.
    """
    (rows,) = trial_pieces(frame, columns, check=True)
    return rows


def trial_pieces(
    table: pd.DataFrame | PiecedTable, columns: ColumnNames, *, check: bool = False
) -> Iterator[TrialRows]:
    """The rows of the two arms, piece by piece; a frame is one piece.

    ``check``: also what only all pieces together show, at the end: both arms are there, outcomes
    are not missing unless that was allowed for, and ids differ (as far as 64 bits tell). It takes
    8 bytes a row. And also the columns that are tested, but not learnt from.
    """
    hashes: list[Hashes] = []
    first, start, n_treated, labels = 0, 0, 0, set[str]()
    lost = np.zeros(2, dtype=np.int64)
    for frame in _frames(table, columns, columns.ignored if check else ()):
        rows, found = _rows_of_arms(frame, columns)
        yield rows._replace(positions=rows.positions + start, first=first)
        first, start = first + len(rows.y), start + len(frame)
        lost += rows.lost
        n_treated, labels = n_treated + int(rows.treated.sum()), labels | set(found)
        if check and rows.ids is not None and columns.groups != columns.id:
            hashes.append(pd.util.hash_array(rows.ids))
    if check and lost.any() and not columns.drop_missing_outcomes:
        raise ValueError(_missing_outcomes(lost, (first - n_treated, n_treated), columns))
    if check and not 0 < n_treated < first:
        raise ValueError(
            f"the treatment {columns.treatment!r} should hold {columns.treated!r} and "
            f"{columns.control!r}, got {listed(sorted(labels))}. Check the labels of the arms."
        )
    if hashes and (n_repeated := first - len(np.unique(np.concatenate(hashes)))):
        raise ValueError(
            f"the id {columns.id!r} should be different in every row, got {n_repeated:,} "
            f"row{'s' if n_repeated > 1 else ''} with the id of another one. Do the rows of an id "
            f"belong together? Then pass groups={columns.id!r}; otherwise keep one row of each id."
        )


def _frames(
    table: pd.DataFrame | PiecedTable, columns: ColumnNames, more: Sequence[str]
) -> Iterable[pd.DataFrame]:
    if not isinstance(table, PiecedTable):
        return [text_names(table)]
    return table.pieces([*columns.all, *(name for name in more if name in table.columns)])


def _missing_outcomes(lost: NDArray[np.int64], kept: tuple[int, int], columns: ColumnNames) -> str:
    p_value = equal_shares(np.column_stack([lost, kept])) if all(kept) else 0.0
    by_chance = "as chance may have it" if p_value > 0.01 else "chance does not explain this"
    return (
        f"the outcome {columns.outcome!r} should be known of every row, got none in {lost[1]:,} of "
        f"{lost[1] + kept[1]:,} treated and {lost[0]:,} of {lost[0] + kept[0]:,} control rows "
        f"(p {'< 0.0001' if p_value < 1e-4 else f'= {p_value:.2g}'}: {by_chance}). If they were "
        f"lost, or their outcome is not known yet, pass drop_missing_outcomes=True: they are left "
        f"out, and it is tested whether the arms differ in it."
    )


def _rows_of_arms(frame: pd.DataFrame, columns: ColumnNames) -> tuple[TrialRows, list[str]]:
    """The rows of the two arms, and the labels of all arms."""
    check_names(frame, columns.all)
    arms = frame[columns.treatment]
    if n_missing := int(arms.isna().sum()):
        raise ValueError(missing_message(f"the treatment {columns.treatment!r}", n_missing))
    # Texts are made of the few labels, not of all rows.
    codes, values = pd.factorize(arms)
    labels = np.array([arm_text(value) for value in values], dtype=object)
    counts = np.bincount(codes, minlength=len(labels))
    ours = np.isin(labels, (columns.treated, columns.control))
    both = positions = np.flatnonzero(ours[codes])
    in_treated = treated = np.asarray(labels[codes[positions]] == columns.treated, dtype=bool)
    missing = frame[columns.outcome].isna().to_numpy(dtype=bool)[positions]
    lost = int((missing & ~treated).sum()), int((missing & treated).sum())
    if any(lost):
        positions, treated = positions[~missing], treated[~missing]
    kept = frame.iloc[positions]
    outcome = kept[columns.outcome]
    y = np.empty(0)
    if len(outcome):  # of a piece, all rows may be of other arms
        y = check_outcome(outcome_numbers(outcome).to_numpy(), f"the outcome {columns.outcome!r}")
    y = columns.in_table(y)  # turned, if lower is better
    ids, groups = (
        None if name is None else id_texts(kept[name], f"the {what} {name!r}")
        for what, name in (("id", columns.id), ("group", columns.groups))
    )
    others = {str(labels[k]): int(counts[k]) for k in np.flatnonzero(~ours)}
    rows = TrialRows(kept, y, treated, ids, positions, others, lost=lost, groups=groups)
    if columns.propensity is None:
        return rows, labels.tolist()
    own = columns.propensity, columns.treated, columns.control
    chance, of_all, people = two_arms(frame.iloc[both], *own)
    if of_all is not None and people is not None:
        rows = rows._replace(chances=of_all[~missing], people=people[~missing])
    of_lost = chance[missing & ~in_treated], chance[missing & in_treated]
    return rows._replace(propensity=chance[~missing], lost_chances=of_lost), labels.tolist()


def id_texts(column: pd.Series, name: str) -> NDArray[Any]:
    """Ids as texts, all there; 1, 1.0 and "1" are one id. ``name`` is what messages call them."""
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(name, n_missing))
    values = column.to_numpy()
    if values.dtype == object and any(
        np.ndim(value) or isinstance(value, dict) for value in values
    ):
        raise ValueError(
            f"{name} should hold numbers or texts, got lists or the like. Name another column."
        )
    texts = values.astype(str).astype(object)
    if values.dtype.kind == "f":  # value by value: the text of an id is the same in every extract
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**63)
        texts[whole] = values[whole].astype(np.int64).astype(str)
    return texts
