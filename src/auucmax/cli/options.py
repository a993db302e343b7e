"""Options shared by several commands, and the tables, trials and models that they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._errors import InputError
from auucmax.estimators import MODELS

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.data import Trial
    from auucmax.model import UpliftModel
    from auucmax.results import Roles

Group = tuple[Parameter, ...]
Source = dict[str, Any]  # query, decimal and encoding

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Arrow, JSON lines or Excel file, a folder of such files or a glob "
        "pattern. With --query: a DuckDB database or a postgresql://, bigquery://, "
        "databricks://, snowflake://, sqlite:// or trino:// address.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file written by `auucmax fit`.",
        show_default=False,
        resolve_path=True,  # messages name a file by its last part, and "." has none
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help=", ".join(
            f"{name} ({own.about})" if own.about else name for name, own in MODELS.items()
        ),
    ),
]
Share = Annotated[
    float | None,
    typer.Option("--share", "-s", metavar="SHARE", help="Share of people to treat, such as .3."),
]
Cost = Annotated[
    str | None,
    typer.Option(
        "--cost",
        metavar="MONEY",
        help='Cost of treating one person. With several arms, one per arm: "A=.1,B=.12".',
    ),
]
Budget = Annotated[float | None, typer.Option("--budget", "-b", help="Total budget, with --cost.")]
Value = Annotated[
    float | None,
    typer.Option("--value", metavar="MONEY", help="Value of one unit of the outcome."),
]
NewLevels = Annotated[
    str,
    typer.Option(
        "--new-levels",
        metavar="error|other",
        help="What to do with categories that do not occur in the training rows: stop with an "
        "error, or treat them as one unknown category.",
    ),
]


def shared(
    name: str,
    kind: Any,
    help: str,
    *short: str,
    metavar: str | None = None,
    default: Any = None,
    option: str = "",
) -> Parameter:
    """Declare a shared option as a parameter with the name of the library's argument.

    >>> shared("lower_is_better", bool, "The outcome is a cost.", default=False).default
    False
    """
    own = typer.Option(option or f"--{name.replace('_', '-')}", *short, help=help, metavar=metavar)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, own])


_REQUIRED = Parameter.empty
COLUMNS: Group = (
    shared("treatment", str, "Column with the assigned arm, whether or not the person took the "
           "treatment.", "-t", metavar="COLUMN", default=_REQUIRED),
    shared("outcome", str, "Column with the outcome; cells may be empty where the outcome "
           "is unknown.", "-y", metavar="COLUMN", default=_REQUIRED),
    shared("treated", str | None, "Label of the treated rows. By default every label except "
           "the control is an arm.", metavar="LABEL"),
    shared("control", str | None, "Label of the control rows, if it is not 0, no or control.",
           metavar="LABEL"),
    shared("id", str | None, "Column that identifies each row. With it, folds do not depend on the "
           "order of rows.", metavar="COLUMN"),
    shared("groups", str | None, "Column with the household, shop or other cluster. Rows of a "
           "group are kept together; intervals and guarantees account for it.", metavar="COLUMN"),
    shared("propensity", str | None, "Column with the design probability of treatment, if it "
           "differed between rows. With several arms, one column per arm, as in "
           "\"A=col1,B=col2\"; chance means the columns \"chance A\", \"chance B\" and so on.",
           metavar="COLUMN"),
    shared("features", list[str] | None, "Columns that the model may use, separated by commas. "
           "Default: all other columns.", metavar="COLUMNS"),
    shared("ignore", list[str] | None, "Columns that the model may not use. The check still tests "
           "them.", metavar="COLUMNS"),
    shared("after", list[str] | None, "Columns recorded after treatment, such as other outcomes. "
           "They are not used and not checked.", metavar="COLUMNS"),
    shared("categorical", list[str] | None, "Columns whose numbers are codes, such as a "
           "shop number.", metavar="COLUMNS"),
    shared("numeric", list[str] | None, "Columns whose whole numbers are quantities. By default, 3 "
           "to 10 distinct whole numbers are treated as categories.", metavar="COLUMNS"),
    shared("lower_is_better", bool, "A lower outcome is better, such as a cost or a relapse.",
           default=False),
    shared("outcome_range", tuple[float, float] | None, "Range of the outcome for guarantees, if "
           "it is not 0/1. Values outside are clipped.", metavar="LOW HIGH"),
    shared("drop_missing_outcomes", bool, "Drop rows without an outcome. The check tests whether "
           "all arms lose the same share.", default=False),
    shared("max_rows", int | None, "Use a random sample of about this many rows, drawn by group or "
           "id. By default, a table that takes more than a quarter of the free memory is sampled.",
           metavar="N"),
)  # fmt: skip
SOURCE: Group = (
    shared("query", str | None, "SELECT statement or table name in a database.", "-q",
           metavar="SQL"),
    shared("decimal", str | None, "Decimal sign of a CSV file, if its numbers can be read in two "
           "ways, such as 1,234.", metavar=".|,"),
    shared("encoding", str | None, "Encoding of a CSV file that is not UTF-8, such as latin-1, "
           "cp1252 or utf-16.", metavar="NAME"),
)  # fmt: skip
SEED: Group = (shared("random_state", int, "Random seed.", default=0, option="--seed"),)
OUTPUT: Group = (
    shared("as_json", bool, "Print the full result as JSON.", default=False, option="--json"),
    shared("details", bool, "Print all numbers and the methods behind them.", default=False),
    shared("quiet", bool, "Print only the verdict and warnings, without progress.", default=False),
)
_LISTS = ("features", "ignore", "after", "categorical", "numeric")


def columns(names: str) -> Group:
    """The options with these names, all optional.

    >>> [(own.name, own.default) for own in columns("outcome groups")]
    [('outcome', None), ('groups', None)]
    """
    found = [own for own in COLUMNS if own.name in names.split()]
    return tuple(own.replace(default=None) if own.default is _REQUIRED else own for own in found)


def trial_options(given: Mapping[str, Any], table: Any) -> dict[str, Any]:
    """Convert column options to arguments of :func:`auucmax.read_trial`."""
    known = {str(name) for name in table.columns}
    found: dict[str, Any] = {
        name: listed_columns(value, known) if name in _LISTS else value
        for name, value in given.items()
    }
    if (chances := found.get("propensity")) is not None and chances not in known:
        found["propensity"] = by_arm("propensity", chances) if "=" in chances else chances
    return found


def listed_columns(texts: Sequence[str] | None, known: Collection[str]) -> list[str] | None:
    """Split lists of column names at commas, unless the text itself is a known name.

    >>> listed_columns(["age, income", "town,country"], ["age", "income", "town,country"])
    ['age', 'income', 'town,country']
    """
    if not texts:
        return None
    return [name for text in texts for name in ([text] if text in known else names_in(text))]


def names_in(text: str | None) -> list[str]:
    """Split names at commas.

    >>> names_in("age, income")
    ['age', 'income']
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def by_arm(parameter: str, text: str) -> dict[str, str]:
    """Parse "arm=value" pairs; labels may contain commas.

    >>> by_arm("cost", "a=1, b, c = 2")
    {'a': '1', 'b, c': '2'}
    """
    found: dict[str, str] = {}
    pending = ""
    for part in text.split(","):
        pending = f"{pending},{part}" if pending else part
        label, equals, value = pending.rpartition("=")
        if not equals:
            continue
        if label.strip() in found:
            raise InputError(
                parameter, "one entry per arm", f"{label.strip()!r} twice", "Leave one out."
            )
        found[label.strip()], pending = value.strip(), ""
    if pending.strip():
        raise InputError(
            parameter, 'one entry per arm, as in "A=...,B=..."', repr(pending.strip()),
            "Write decimals with a point.",
        )  # fmt: skip
    return found


def amounts(parameter: str, text: str | None) -> Any:
    """Parse a number, or one number per arm.

    >>> amounts("cost", ".5"), amounts("cost", "mail=.5,call=2")
    (0.5, {'mail': 0.5, 'call': 2.0})
    """
    if text is None:
        return None
    try:
        if "=" not in text:
            return float(text)
        return {label: float(value) for label, value in by_arm(parameter, text).items()}
    except InputError:
        raise
    except ValueError:
        raise InputError(
            parameter, 'a number, or one for each arm as in "A=.1,B=.12"', repr(text),
            "Write decimals with a point.",
        ) from None  # fmt: skip


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
    from auucmax.data.reading import read_table
    from auucmax.data.tables import Draw

    columns = dict(columns)
    by, max_rows = columns.get("groups") or columns.get("id"), columns.pop("max_rows", None)
    with working_on("reading"):
        table = read_table(data, draw=Draw(by, max_rows), **source)
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


def read_new_rows(
    model: UpliftModel, data: str, source: Source, given: dict[str, Any], **reading: Any
) -> Trial:
    """Read new rows for a model; ``given``: column options for them."""
    table = read_rows(data, source, model, **reading)
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
