"""Read the tables, trials and models that commands are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from auucmax._errors import InputError
from auucmax.cli.options import trial_options

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.data import Trial
    from auucmax.model import UpliftModel
    from auucmax.results import Roles

Source = dict[str, Any]  # query, decimal and encoding


def read_rows(
    data: str, source: Source, model: UpliftModel | None = None, **options: Any
) -> pd.DataFrame:
    """Read a table and check its decimal sign against that of the ``model``."""
    from auucmax._progress import working_on
    from auucmax.data.databases import check_decimal
    from auucmax.data.reading import read_table

    with working_on("reading"):
        table = read_table(data, **source, **options)
    if model is not None:
        check_decimal(table, model.info.decimal, list(model.inputs))
    return table


def file_name(data: str) -> str:
    """The name of DATA in models and pages: no folder, and no database address.

    >>> file_name("/home/me/customers.csv"), file_name("postgresql://me:secret@host/shop")
    ('customers.csv', '')
    """
    return "" if "://" in data else Path(data).name


def read_rows_of_trial(data: str, source: Source, columns: dict[str, Any]) -> Trial:
    """Read a trial from a table."""
    from auucmax._progress import working_on
    from auucmax.data import read_trial
    from auucmax.data.reading import read_sample

    columns = dict(columns)
    by, max_rows = columns.get("groups") or columns.get("id"), columns.pop("max_rows", None)
    with working_on("reading"):
        table = read_sample(data, by=by, max_rows=max_rows, **source)
    return read_trial(table, **trial_options(columns, table))


def read_model(path: Path, new_levels: str = "error") -> UpliftModel:
    """Load a model; ``new_levels`` is "error", or "other" to accept new categories."""
    from auucmax._validation import check_choice
    from auucmax.model import load

    check_choice(new_levels, "new_levels", ("error", "other"))
    model = load(path)
    for scorer in model.scorers:
        scorer.encoder.new_levels = new_levels
    return model


def read_new_rows(model: UpliftModel, data: str, source: Source, given: dict[str, Any]) -> Trial:
    """Read new rows for a model; ``given``: column options for them."""
    table = read_rows(data, source, model)
    options = trial_options(given, table)
    names = ("propensity", "drop_missing_outcomes")
    return model.read(table, **{name: options[name] for name in names if options.get(name)})


def check_roles(roles: Roles, given: dict[str, Any]) -> None:
    """Raise an InputError if options contradict the columns of the model."""
    known = {
        "treatment": roles.treatment, "outcome": roles.outcome.name, "id": roles.id,
        "groups": roles.groups, "control": roles.arms[0], "outcome_range": roles.outcome.range,
        "lower_is_better": roles.outcome.lower_is_better,
    }  # fmt: skip
    for name, value in given.items():
        if name in known and value not in (None, False, known[name]):
            raise InputError(
                name, f"{known[name]!r}, as the model was fitted", repr(value), "Leave it out."
            )


def read_ids(path: str, model: UpliftModel) -> list[Any]:
    """Read the ids of people to exclude."""
    from auucmax.data.read_trial import check_names
    from auucmax.data.reading import read_table
    from auucmax.data.tables import NoRowsError
    from auucmax.encoding.frames import frame_of

    id = model.roles.id
    if id is None:
        raise InputError(
            "exclude", "left out, because the model has no id column", path, "Fit with --id."
        )
    try:
        table = frame_of(read_table(path))
    except NoRowsError:  # nobody
        return []
    check_names(table, [id])
    return list(table[id].dropna())
