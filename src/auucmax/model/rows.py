"""The rows of the two arms of a table: checked, counted, tested, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import (
    LARGEST,
    Bools,
    Floats,
    check_outcome,
    listed,
    missing_message,
)
from auucmax.data import RandomisationReport, Trial, check_randomisation
from auucmax.data.balance import equal_shares
from auucmax.data.chances import (
    ChanceWeights,
    chances_told,
    compare_counts,
    even_rows,
    names_of,
    two_arms,
)
from auucmax.data.hashing import numbers_for, row_hashes
from auucmax.data.pieces import PiecedTable, sampled
from auucmax.data.randomisation import varies_within
from auucmax.data.randomisation_report import STOP
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.frames import frame_of
from auucmax.encoding.kinds import (
    MOST_CODES,
    arm_text,
    code_counts,
    kind_of,
    numbers_of,
    outcome_numbers,
)
from auucmax.model.columns import ColumnNames, check_names, names_rows

Hashes = NDArray[np.uint64]


class TrialRows(NamedTuple):
    """The rows of the two arms, checked; ``left_out`` counts rows of other arms by label.

    ``positions`` are their places in the table.
    ``lost`` counts rows of control and treated without an outcome, which are left out.
    ``groups`` are the names of their households or shops, if there are any. ``propensity`` are
    their chances of treatment, if these differ; ``lost_chances`` those of the rows of control and
    treated without an outcome, ``lost_groups`` their groups, and ``lost_first`` whether they are
    the first rows of these.
    Of two of several arms, ``chances`` (n, K + 1) are those of all, as columns name them, and
    ``people`` (n,) how many people a row stands for.
    """

    frame: pd.DataFrame
    y: Floats
    treated: Bools
    ids: NDArray[Any] | None
    positions: NDArray[np.intp]
    left_out: dict[str, int]
    lost: tuple[int, int] = (0, 0)
    groups: NDArray[Any] | None = None
    propensity: Floats | None = None
    lost_chances: tuple[Floats, Floats] | None = None
    lost_groups: tuple[NDArray[Any], NDArray[Any]] | None = None
    lost_first: tuple[Bools, Bools] | None = None
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
        weigh = ChanceWeights.of(self.treated, self.people)
        return weigh(self.treated, self.propensity, self.people)

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
            names += [name for name in columns.ignored if not names_rows(self.frame[name])]
        features = self.frame[names][some]
        kind = pd.factorize(row_hashes(numbers_for(features)))[0]  # rows with the same features
        size, treated = np.bincount(kind), np.bincount(kind, self.treated[some])
        share = treated.sum() / max(size.sum(), 1)
        # How much treatment varies within kinds, and how much it would among independent rows.
        found = float((2 * treated * (size - treated) / size).sum())
        expected = float((size - 1).sum() * 2 * share * (1 - share))
        if found >= _TOGETHER * expected or expected - found <= 5 * np.sqrt(expected):
            return
        n = int(size[size > 1].sum())
        raise ValueError(
            f"rows should be different people, each treated by chance; got {n:,} rows that have "
            f"all features of another one, and treatment goes with them more than chance explains: "
            f"copies of rows, rows of one person or household, or treatment by these features. "
            f"Remove the copies, or pass groups=COLUMN, by which rows belong together, or "
            f"propensity=COLUMN, if chances of treatment differed by design."
        )


_TOGETHER = 0.8  # of the variation that is expected, below which rows were treated together
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
    return TrialRows(
        frame=pd.concat([piece.frame for piece in pieces]),
        **own,
        left_out={},
        lost=(sum(piece.lost[0] for piece in pieces), sum(piece.lost[1] for piece in pieces)),
        **_joined_lost(pieces),
    )


def _joined_lost(pieces: list[TrialRows]) -> dict[str, Any]:
    """Chances and groups of rows without an outcome; each group has one first row, if any."""
    found: dict[str, Any] = {}
    for name in ("lost_chances", "lost_groups", "lost_first"):
        parts = [getattr(piece, name) for piece in pieces if getattr(piece, name) is not None]
        if parts:
            found[name] = tuple(np.concatenate([part[arm] for part in parts]) for arm in (0, 1))
    if "lost_groups" in found:
        pairs = zip(found["lost_groups"], found["lost_first"], strict=True)
        found["lost_first"] = tuple(
            first & ~pd.Series(np.where(first, names, None)).duplicated().to_numpy()
            for names, first in pairs
        )
    return found


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
    kept, n_lost = (int((~treated).sum()), int(treated.sum())), rows.lost
    labels = columns.control, columns.treated
    gone = rows.lost_groups
    chances: tuple[Floats, ...] = rows.lost_chances or ()
    if rows.groups is not None and gone is not None and rows.lost_first is not None:
        codes = pd.factorize(rows.groups)[0]
        if varies_within(codes, rows.treated, rows.propensity):
            options["missing_groups"] = dict(zip(labels, gone, strict=True))
        else:
            # Groups are lost as a whole, large or small: each counts once, by its first row.
            chances = tuple(c[f] for c, f in zip(chances, rows.lost_first, strict=False))
            if len(treated) == len(rows.y):
                kept, n_lost = _counts_of_groups(rows)
    lost = {arm: (n, n + m) for arm, n, m in zip(labels, n_lost, kept, strict=True)}
    if rows.propensity is not None:
        options["propensity"] = rows.propensity
        options["missing_propensity"] = dict(zip(labels, chances, strict=False))
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


def _counts_of_groups(rows: TrialRows) -> tuple[tuple[int, int], tuple[int, int]]:
    """Groups of control and treated with an outcome, and without one, each by its first row."""
    pairs = zip(rows.lost_groups or (), rows.lost_first or (), strict=True)
    gone = [names[first] for names, first in pairs]
    names = pd.Series(rows.groups)
    first = rows.treated[~(names.duplicated() | names.isin(np.concatenate(gone))).to_numpy()]
    return (int((~first).sum()), int(first.sum())), (len(gone[0]), len(gone[1]))


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
    (piece,) = read_pieces(frame, columns)
    return piece.sample


def trial_pieces(table: PiecedTable, columns: ColumnNames) -> Iterator[TrialRows]:
    """The rows of the two arms, piece by piece."""
    start = 0
    for frame in table.pieces(columns.all):
        rows, _ = rows_of_arms(frame, columns)
        yield rows._replace(positions=rows.positions + start)
        start += len(frame)


class ReadPiece(NamedTuple):
    """What is kept of a piece of a table: some numbers of every row of the two arms, and a sample.

    ``keys`` are those of :meth:`TrialRows.keys`, if a key was given, ``ids`` hashes of the ids, if
    rows have such, ``labels`` those of all arms. ``sample`` is at the places ``some`` of these
    rows. The piece begins at the place ``start`` of the table.
    """

    y: Floats
    treated: Bools
    keys: Hashes
    propensity: Floats | None
    people: Floats | None
    chances: Floats | None
    ids: Hashes | None
    labels: list[str]
    sample: TrialRows
    some: NDArray[np.intp]
    start: int


def read_pieces(
    table: pd.DataFrame | PiecedTable, columns: ColumnNames, key: str | None = None
) -> list[ReadPiece]:
    """The rows of the two arms of a table, a piece for a frame, read where they are and checked.

    Samples are all rows of a frame, or some drawn at random.
    """
    if not isinstance(table, PiecedTable):
        pieces = [_read_piece(frame_of(table), 0, columns, key)]
    else:
        wanted = [*columns.all, *(name for name in columns.ignored if name in table.columns)]
        most = table.sample_rows, table.n_rows
        read = partial(_read_piece, columns=columns, key=key, most=most)
        pieces = list(table.each(read, wanted))
    check_pieces(pieces, columns)
    return pieces


def _read_piece(
    frame: pd.DataFrame,
    start: int,
    columns: ColumnNames,
    key: str | None,
    most: tuple[int, int] | None = None,
) -> ReadPiece:
    """``most``: how many of how many rows the sample of the whole table should have."""
    rows, labels = rows_of_arms(frame, columns)
    rows = rows._replace(positions=rows.positions + start)
    some = np.arange(len(rows.y))
    if most is not None:
        some = np.flatnonzero(sampled(rows.positions, *most))
    keys = np.empty(0, dtype=np.uint64) if key is None else rows.keys(key)
    ids = None if rows.ids is None else np.asarray(pd.util.hash_array(rows.ids))
    own = rows.y, rows.treated, keys, rows.propensity, rows.people, rows.chances
    return ReadPiece(*own, ids, labels, rows.take(some), some, start)


def check_pieces(pieces: Sequence[ReadPiece], columns: ColumnNames) -> None:
    """Raise a ValueError for what only all pieces together show.

    Both arms should be there, outcomes not be missing unless that was allowed for, and ids differ,
    as far as 64 bits tell.
    """
    n = sum(len(piece.y) for piece in pieces)
    n_treated = sum(int(piece.treated.sum()) for piece in pieces)
    lost = np.array([piece.sample.lost for piece in pieces], dtype=np.int64).sum(axis=0)
    if lost.any() and not columns.drop_missing_outcomes:
        raise ValueError(_missing_outcomes(lost, (n - n_treated, n_treated), columns))
    if not 0 < n_treated < n:
        labels = sorted({label for piece in pieces for label in piece.labels})
        raise ValueError(
            f"the treatment {columns.treatment!r} should hold {columns.treated!r} and "
            f"{columns.control!r}, got {listed(labels)}. Check the labels of the arms."
        )
    hashes = [piece.ids for piece in pieces if piece.ids is not None]
    if not hashes or columns.groups == columns.id:
        return
    if n_repeated := n - len(np.unique(np.concatenate(hashes))):
        raise ValueError(
            f"the id {columns.id!r} should be different in every row, got {n_repeated:,} "
            f"row{'s' if n_repeated > 1 else ''} with the id of another one. Do the rows of an id "
            f"belong together? Then pass groups={columns.id!r}; otherwise keep one row of each id."
        )


def _missing_outcomes(lost: NDArray[np.int64], kept: tuple[int, int], columns: ColumnNames) -> str:
    told = ""
    if columns.groups is None:  # rows of a group are lost together, and are no test
        p_value = equal_shares(np.column_stack([lost, kept])) if all(kept) else 0.0
        by_chance = "as chance may have it" if p_value > 0.01 else "chance does not explain this"
        told = f" (p {'< 0.0001' if p_value < 1e-4 else f'= {p_value:.2g}'}: {by_chance})"
    return (
        f"the outcome {columns.outcome!r} should be known of every row, got none in {lost[1]:,} of "
        f"{lost[1] + kept[1]:,} treated and {lost[0]:,} of {lost[0] + kept[0]:,} control rows"
        f"{told}. If they were "
        f"lost, or their outcome is not known yet, pass drop_missing_outcomes=True: they are left "
        f"out, and it is tested whether the arms differ in it."
    )


def rows_of_arms(frame: pd.DataFrame, columns: ColumnNames) -> tuple[TrialRows, list[str]]:
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
    gone = missing & ~in_treated, missing & in_treated
    if columns.groups is not None and any(lost):
        names = frame[columns.groups].iloc[both]
        first = ~names.duplicated().to_numpy()
        control, other = (id_texts(names[own], f"the group {columns.groups!r}") for own in gone)
        rows = rows._replace(
            lost_groups=(control, other), lost_first=(first[gone[0]], first[gone[1]])
        )
    if columns.propensity is None:
        return rows, labels.tolist()
    own = columns.propensity, columns.treated, columns.control
    chance, of_all, people = two_arms(frame.iloc[both], *own)
    if of_all is not None and people is not None:
        rows = rows._replace(chances=of_all[~missing], people=people[~missing])
    rows = rows._replace(propensity=chance[~missing])
    return rows._replace(lost_chances=(chance[gone[0]], chance[gone[1]])), labels.tolist()


def id_texts(column: pd.Series, name: str, *, blanks: bool = False) -> NDArray[Any]:
    """Ids as texts, all there; 1, 1.0 and "1" are one id. ``name`` is what messages call them.

    ``blanks``: whether a text of nothing, or of blanks alone, is a value, and not a missing id.
    """
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(name, n_missing))
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert(None)  # a moment is one id, in whatever zone it is told
    values = column.to_numpy()
    if values.dtype == object and any(
        np.ndim(value) or isinstance(value, dict) for value in values
    ):
        raise ValueError(
            f"{name} should hold numbers or texts, got lists or the like. Name another column."
        )
    if values.dtype.kind == "M":
        return _moment_texts(values)
    written = values.astype(str)
    if not blanks and (n_blank := int(((written == "") | np.strings.isspace(written)).sum())):
        raise ValueError(
            f"{name} should be there in every row, got {n_blank:,} blank "
            f"text{'s' if n_blank > 1 else ''}. Fill them in, or drop these rows."
        )
    texts = written.astype(object)
    if values.dtype.kind == "f":  # value by value: the text of an id is the same in every extract
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**63)
        texts[whole] = values[whole].astype(np.int64).astype(str)
    return texts


def _moment_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Texts of moments, the same whatever their unit; of a midnight it is that of the day."""
    texts = np.full(len(values), "", dtype=object)
    left = np.ones(len(values), dtype=bool)
    for unit in ("D", "s", "us", "ns"):
        own = values.astype(f"datetime64[{unit}]")
        told = left & (own == values)
        texts[told] = own[told].astype(str)
        left &= ~told
    return texts
