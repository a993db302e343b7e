"""From DATA and column options to the rows of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from auucmax.cli.arms import texts_by_arm
from auucmax.cli.options import listed_columns
from auucmax.cli.output import note, working

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.model import ArmsModel, ColumnNames, TrialModel, TrialRows


class Source(NamedTuple):
    """DATA, and the options that say how it is read."""

    data: str
    query: str | None = None
    decimal: str | None = None
    encoding: str | None = None


def file_name(data: str) -> str:
    """What a page calls DATA: no folder, and nothing of an address, which may hold a password.

    >>> file_name("/home/me/customers.csv"), file_name("postgresql://me:secret@host/shop")
    ('customers.csv', '')
    """
    return "" if "://" in data else Path(data).name


def read_rows(source: Source, model: TrialModel | ArmsModel | None = None) -> pd.DataFrame:
    """The table, with a spinner while it is read.

    ``model``: that the rows are for. Its numbers are not to be read in another way than in its fit.
    """
    from auucmax.data.reading import read_table

    data, *form = source
    options = dict(zip(("query", "decimal", "encoding"), form, strict=True))
    with working("reading"):
        table = read_table(data, **options)
    if model is not None:
        check_points(table, model)
    return table


def check_points(table: pd.DataFrame, model: TrialModel | ArmsModel) -> None:
    """Raise a ValueError if points, as in 1.696, are taken for what they were not in the fit."""
    from auucmax._validation import listed
    from auucmax.data.databases import Signs

    signs = Signs.of(table)
    columns = [name for name in signs.guessed if name in model.inputs]
    # Where nobody can tell they are decimals, though no column shows it.
    if not columns or model.decimal is None or (signs.decimal or ".") == model.decimal:
        return
    meant = {".": "a decimal sign", ",": "between thousands"}
    other = "," if model.decimal == "." else "."
    raise ValueError(
        f"numbers should be written as in the table of the fit, where a point was "
        f"{meant[model.decimal]}; got {listed(columns)} with numbers as 1.696, whose points would "
        f"be {meant[other]} here. Say which sign is before decimals: decimal='{model.decimal}' if "
        f"they are as in the fit, otherwise decimal='{other}'."
    )


def read_ids(data: str, id: str | None) -> list[Any]:
    """The ids of a table of people; ``id`` is the column that the model knows."""
    import pandas as pd

    from auucmax._validation import listed
    from auucmax.data.reading import read_table
    from auucmax.data.table_errors import NoRowsError
    from auucmax.encoding.frames import frame_of

    if id is None:
        raise ValueError(
            "--exclude needs ids, and the MODEL knows none. Fit it with --id, the column of ids."
        )
    try:
        table = frame_of(read_table(data))
    except NoRowsError as error:  # a header alone: nobody
        table = pd.DataFrame(columns=list(error.columns))
    if id not in table.columns:
        raise ValueError(
            f"{Path(data).name} should have the column {id!r}, the ids of MODEL; got "
            f"{listed(table.columns)}. Write its name into the first line."
        )
    return table[id].dropna().tolist()


def read_model(
    path: Path, new_levels: str, drop_missing_outcomes: bool = False
) -> TrialModel | ArmsModel:
    """The model, of two arms or several; it takes new texts, and rows to judge it, as told."""
    from auucmax._validation import check_choice
    from auucmax.model import TrialModel, load_model

    check_choice(new_levels, "--new-levels", ("error", "other"))
    model = load_model(path)
    for one in [model] if isinstance(model, TrialModel) else model.models.values():
        one.encoder.new_levels = new_levels
        if drop_missing_outcomes:
            one.columns = replace(one.columns, drop_missing_outcomes=True)
    return model


def of_two_arms(model: TrialModel | ArmsModel, command: str) -> TrialModel:
    """The model, if it is one of two arms; a ValueError otherwise."""
    from auucmax._validation import listed
    from auucmax.model import TrialModel

    if isinstance(model, TrialModel):
        return model
    raise ValueError(
        f"{command} should get a MODEL of two arms, got one of {listed(model.labels)} against "
        f"{model.control!r}. Fit one arm of them with --treated and --control."
    )


def take_chances(model: TrialModel | ArmsModel, propensity: str | None) -> None:
    """Judge the model on new rows by the chances of a column, whatever those of the fit were.

    Of several arms, by those of a column for each: by label, or the word that they begin with.
    """
    from auucmax.model import TrialModel

    if propensity is None:
        return
    named: str | tuple[tuple[str, ...], ...] = propensity
    if isinstance(model, TrialModel):
        if "=" in propensity:  # of a table with more arms than the model has
            labels = [part.rpartition("=")[0].strip() for part in propensity.split(",")]
            named = tuple(texts_by_arm(propensity, labels, _CHANCES).items())
        model.columns = replace(model.columns, propensity=named)
        return
    named = tuple((label, f"{propensity} {label}") for label in model.labels)
    if "=" in propensity:
        given = texts_by_arm(propensity, [model.control, *model.labels], _CHANCES)
        if len(given) != len(model.labels):
            raise ValueError(
                f"{_CHANCES} should name a column with the chance of each arm, but of the control, "
                f"which has the rest; got {len(given)} for {len(model.labels)} arms. Name them."
            )
        named = tuple(given.items())
    for one in model.models.values():
        one.columns = replace(one.columns, propensity=named)


def check_decided(
    columns: ColumnNames,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    **named: str | bool | None,
) -> None:
    """Raise a ValueError if options say something else than what a model knows already."""
    from auucmax._validation import listed
    from auucmax.encoding.kinds import arm_text

    for name, given in named.items():
        known = getattr(columns, name)
        is_label = name in ("treated", "control")
        same = arm_text(given).strip() == known.strip() if is_label and given else given == known
        if isinstance(known, tuple) and isinstance(given, str):  # chances of several arms
            told = ",".join(f"{label}={column}" for label, column in known)
            word = {column.removesuffix(f" {label}") for label, column in known}
            same, known = given in (told, *word) if len(word) == 1 else given == told, told
        if given is not None and not same:
            expected = repr(known) if known else "left out, for the model has none"
            raise ValueError(_decided(f"--{name.replace('_', '-')}", expected, repr(given)))
    own = columns.features
    lists = {"features": features, "categorical": categorical, "numeric": numeric}
    for name, texts in lists.items():
        chosen, known = listed_columns(texts, own), getattr(columns, name)
        if chosen is not None and set(chosen) != set(known):
            expected = listed(known) if known else "left out, for the model has none"
            raise ValueError(_decided(f"--{name}", expected, listed(chosen)))
    if used := [name for name in listed_columns(ignore, own) or [] if name in own]:
        raise ValueError(_decided("--ignore", "other columns than it uses", listed(used)))


def _decided(option: str, expected: str, got: str) -> str:
    return (
        f"{option} should be {expected}, as the MODEL was fitted; got {got}. Leave {option} out: "
        f"the MODEL decides it."
    )


def several_arms(table: pd.DataFrame, named: dict[str, Any]) -> list[str]:
    """Labels of arms beside the control, if there are several and none was named as treated."""
    from auucmax.encoding.kinds import arm_text

    if named["treated"] is not None or named["control"] is None:
        return []
    labels = sorted({*_arms(table, named["treatment"])} - {arm_text(named["control"])})
    return labels if len(labels) > 1 else []


def rows_of_arms(
    frame: pd.DataFrame, *, refuse: bool = False, **named: Any
) -> tuple[TrialRows, ColumnNames]:
    """The rows of both arms with all their columns, and which column plays which part.

    ``named`` as :func:`column_options` makes them. Rows that are copies of others get a note; to
    learn from, ``refuse``, they are an error, and so are numbers that nothing can be computed with.
    """
    from auucmax.model import name_columns, trial_rows

    columns = name_columns(frame, **named)
    rows = trial_rows(frame, columns)
    if refuse:
        rows.check_sizes(columns)
    try:
        rows.check_copies(columns)
    except ValueError as error:
        if refuse:
            raise
        note(str(error))
    return rows, columns


def column_options(
    table: pd.DataFrame,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    after: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    **named: Any,
) -> dict[str, Any]:
    """Columns to learn from, to ignore and so on as lists; labels as they are."""
    _check_parts(named)
    known = {str(name) for name in table.columns}
    lists = {"features": features, "ignore": ignore, "after": after,
             "categorical": categorical, "numeric": numeric}  # fmt: skip
    columns = {name: listed_columns(given, known) for name, given in lists.items()}
    named = named | arm_labels(table, **named) | columns
    if named["control"] is None and named["treatment"] in known:
        named["control"] = _usual_control(table, named["treatment"], named["treated"])
    chances = named.get("propensity")
    if chances is not None and "=" in chances and chances not in known:
        named["propensity"] = texts_by_arm(chances, _arms(table, named["treatment"]), _CHANCES)
    return named


_CHANCES = "--propensity"


def _arms(table: pd.DataFrame, treatment: str) -> list[str]:
    from auucmax.model.columns import arm_counts

    return sorted(arm_counts(table, treatment))


def _usual_control(table: pd.DataFrame, treatment: str, treated: str | None) -> str | None:
    """The label "control", if the table has it and it was not named as treated."""
    from auucmax._validation import control_among

    usual = control_among(_arms(table, treatment))
    return None if usual == treated else usual


def _check_parts(named: dict[str, Any]) -> None:
    """Raise a ValueError if one column is to say both who was treated and what came of it."""
    given = {f"--{part}": named.get(part) for part in ("treatment", "outcome", "id")}
    columns = [column for column in given.values() if column is not None]
    if twice := {column for column in columns if columns.count(column) > 1}:
        options = " and ".join(option for option, column in given.items() if column in twice)
        raise ValueError(
            f"{options} should be different columns, got {twice.pop()!r} for both. Check the names."
        )
    if named.get("treated") is not None and named["treated"] == named.get("control"):
        raise ValueError(
            f"--treated and --control should be different labels, got {named['treated']!r} for "
            f"both. Name two arms."
        )


def arm_labels(
    table: pd.DataFrame,
    *,
    treatment: str,
    treated: str | None,
    control: str | None,
    **others: Any,
) -> dict[str, str | None]:
    """Labels of the arms as the table spells them: blanks around them are hard to see."""
    from auucmax.encoding.kinds import level_text
    from auucmax.model.columns import different_values

    given = {"treated": treated, "control": control}
    if treatment not in table.columns or not any(given.values()):
        return given
    labels = [level_text(value) for value in different_values(table, treatment)]
    for arm, label in given.items():
        if label is not None and label not in labels:
            alike = [other for other in labels if other.strip() == label.strip()]
            given[arm] = alike[0] if len(alike) == 1 else label
    return given
