"""``auucmax export``: the model as SQL, a dbt model, ONNX, a Python file, JSON or a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from auucmax.cli import options
from auucmax.cli.arms import CostOfArms, costs_by_arm
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import listed_columns
from auucmax.cli.output import note, print_json, print_text, tell
from auucmax.cli.output import told as as_commands

if TYPE_CHECKING:
    from auucmax.export import ArmScore
    from auucmax.model import ArmsModel, TrialModel

FORMATS = ("sql", "dbt", "onnx", "python", "json", "card")


@tells_failures
def export(
    model: options.Model,
    to: Annotated[str, typer.Option("--to", help="sql, dbt, onnx, python, json or card.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File (dbt: project folder); else to the screen (not onnx)."
        ),
    ] = None,
    dialect: Annotated[
        str,
        typer.Option(
            "--dialect",
            help="duckdb, postgres, bigquery, snowflake, databricks, spark, redshift, trino or "
            "mysql.",
        ),
    ] = "duckdb",
    table: Annotated[
        str, typer.Option("--table", help="Table that the SQL reads; dbt: its model, or a source.")
    ] = "people",
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Columns to keep, with commas or several times; or all."),
    ] = None,
    cost: CostOfArms = None,
    value: options.Value = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the scores as a query, a graph, coefficients or numpy; or the card of the model.

    Scores of all models but networks and DDR; ONNX takes networks as well. dbt writes a model of
    the query, and tests of it, into a project's folders models and tests, called by --table and
    the model file: people_mail_scores. Its --table is a model, or a source as in shop.people.
    --json tells what was written and which columns it needs; without a file it has the text, too.
    Of several arms it gives the uplift of each, and the arm of the highest --value times uplift
    minus --cost (else the costs of the fit). A Python file scores CSV files: python scores.py
    people.csv > scores.csv. A card, Markdown, says what the model is, on what trial, and how sure
    that is.
    """
    from auucmax._files import check_target
    from auucmax._validation import check_choice
    from auucmax.model import load_model

    check_choice(to, "--to", FORMATS)
    if to == "dbt":
        output = _project(output)
    elif output is not None:
        check_target(output, model)
    elif to == "onnx":
        raise ValueError("an ONNX model should go to a file, got no --output. Name one.")
    fitted = load_model(model)
    if fitted.warning is not None:
        note(fitted.warning)
    worth = _worth(fitted, cost, value)
    if to == "dbt" and output is not None:
        files = _dbt_files(fitted, model.stem, table, dialect, keep, worth)
        contents = {output / name: text.encode() for name, text in files.items()}
    else:
        content = _content(fitted, to, table, dialect, keep, worth)
        contents = {} if output is None else {output: content}
    if to == "dbt":
        _check_project(contents, model)
        _tell_replaced(contents)
    _write(contents)
    if as_json:
        text = content.decode() if output is None else None
        file = None if output is None else str(output)
        dialect_used = dialect if to in ("sql", "dbt") else None
        told = {"kind": to, "dialect": dialect_used, "file": file, "text": text}
        print_json(told | _needs(fitted))
    elif output is None:
        print_text(content.decode(), nl=False)
    else:
        tell(f"Written to {', '.join(map(str, contents))}.")


def _project(output: Path | None) -> Path:
    """The folder of a dbt project, which is there; a note if dbt will not see it as one."""
    if output is None or not output.is_dir():
        got = "none" if output is None else str(output)
        raise ValueError(
            f"--output should be the folder of a dbt project, got {got}. Name one that exists."
        )
    if not (output / "dbt_project.yml").is_file():
        note(
            f"{output} has no dbt_project.yml: dbt reads these files only in the folder of a "
            f"project. Name that one as --output, or make one by dbt init."
        )
    return output


def _check_project(contents: Mapping[Path, bytes], model: Path) -> None:
    """Raise a ValueError unless all files can be put where nothing is, or an older one of ours."""
    from auucmax._files import check_target
    from auucmax.export.dbt import WRITTEN

    for path in contents:
        for place in (path.parent, path):
            if place.is_symlink():
                raise ValueError(
                    f"files of a dbt model should be in the project itself, got the link {place}. "
                    f"Remove it, or name another project as --output."
                )
        if path.parent.exists() and not path.parent.is_dir():
            raise ValueError(
                f"files of a dbt model should be in a folder, got the file {path.parent}. Move it, "
                f"or name another project as --output."
            )
        check_target(path if path.parent.exists() else path.parent.with_name(path.name), model)
        if not path.exists():
            continue
        with path.open("rb") as file:
            if WRITTEN.encode() not in file.readline(200):
                raise ValueError(
                    f"files of a dbt model should replace none but those of an earlier export, got "
                    f"{path}, which auucmax did not write. Move it, or name another --table."
                )


def _tell_replaced(contents: Mapping[Path, bytes]) -> None:
    """A note, if files of an earlier export are replaced by others."""
    gone = [path for path, own in contents.items() if path.exists() and path.read_bytes() != own]
    if gone:
        note(
            f"files of an earlier export, of a model of this name, are replaced: "
            f"{', '.join(map(str, gone))}. Give the model file another name to keep both."
        )


def _write(contents: Mapping[Path, bytes]) -> None:
    """Write all files, or none: each takes its place when all are written."""
    from auucmax._files import whole_file

    with ExitStack() as made, ExitStack() as files:
        for path, own in contents.items():
            if not path.parent.is_dir():
                path.parent.mkdir()
                made.callback(_remove_empty, path.parent)
            files.enter_context(whole_file(path)).write_bytes(own)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it has files
        folder.rmdir()


class _Worth(NamedTuple):
    """What an outcome is worth, and (K,) what arms cost."""

    value: float
    costs: tuple[float, ...]


def _worth(fitted: TrialModel | ArmsModel, cost: str | None, value: float | None) -> _Worth:
    from auucmax.model import TrialModel
    from auucmax.model.arm_fitting import check_arm_costs
    from auucmax.targeting.policy import check_money

    if isinstance(fitted, TrialModel):
        if cost is not None or value is not None:
            raise ValueError(
                "--cost and --value should come with a MODEL of several arms, got one of two. "
                "Leave them out."
            )
        return _Worth(1.0, ())
    if cost is not None and value is None:
        raise ValueError(
            "--cost should come with --value, what one unit of the outcome is worth, got costs "
            "alone. Name it, or leave the costs out."
        )
    if value is None:
        return _Worth(1.0, (0.0,) * len(fitted.labels))
    costs = costs_by_arm(cost, fitted.labels) or fitted.costs
    if costs is None:
        raise ValueError(
            "--value should come with --cost, what each arm costs, got a value alone, and the "
            "model was fitted without costs. Name them, or leave the value out."
        )
    worth = check_money(value, "value")
    return _Worth(worth, check_arm_costs(costs, fitted.labels, "cost"))


def _content(
    fitted: TrialModel | ArmsModel,
    to: str,
    table: str,
    dialect: str,
    keep: list[str] | None,
    worth: _Worth,
) -> bytes:
    from auucmax import export
    from auucmax.model import TrialModel

    if to == "card":
        return _card(fitted).encode()
    if to == "sql":
        query = _query(fitted, dialect, keep, worth)(table=table)
        return f"{_comment(fitted, dialect, worth)}{query}\n".encode()
    how: dict[str, Any] = {}
    if to == "python":
        kept, own = _kept(fitted, keep), [fitted.columns.id] if fitted.columns.id else []
        how["keep"] = [*own, *fitted.columns.features] if kept == "all" else kept
        how["decimal"] = fitted.decimal
    if isinstance(fitted, TrialModel):
        write = getattr(export, f"to_{to}")
        found = write(fitted.encoder, fitted.formula, calibration=fitted.calibration, **how)
    else:
        write = getattr(export, f"arms_to_{to}")
        arms = _arm_scores(fitted, worth)
        found = write(arms, control=fitted.control, value=worth.value, **how)
    # A file of Python ends its last line itself.
    return found if isinstance(found, bytes) else f"{found.rstrip()}\n".encode()


def _kept(fitted: TrialModel | ArmsModel, keep: list[str] | None) -> Any:
    """Columns that pass: those that are named, "all", or the id."""
    own = [] if fitted.columns.id is None else [fitted.columns.id]
    known = [*fitted.columns.features, *own]
    return own if not keep else "all" if keep == ["all"] else listed_columns(keep, known) or []


def _card(fitted: TrialModel | ArmsModel) -> str:
    from auucmax.model import TrialModel
    from auucmax.present import model_card, summarise_arms, summarise_model

    if isinstance(fitted, TrialModel):
        return model_card(fitted, as_commands(summarise_model(fitted)))
    return model_card(fitted, as_commands(summarise_arms(fitted)))


def _query(
    fitted: TrialModel | ArmsModel, dialect: str, keep: list[str] | None, worth: _Worth
) -> partial[str]:
    """What writes the SQL of a table."""
    from auucmax.export import arms_to_sql, to_sql
    from auucmax.model import TrialModel

    if isinstance(fitted, TrialModel):
        write = partial(to_sql, fitted.encoder, fitted.formula, calibration=fitted.calibration)
    else:
        arms = _arm_scores(fitted, worth)
        write = partial(arms_to_sql, arms, control=fitted.control, value=worth.value)
    return partial(write, dialect=dialect, keep=_kept(fitted, keep))


def _dbt_files(
    fitted: TrialModel | ArmsModel,
    name: str,
    table: str,
    dialect: str,
    keep: list[str] | None,
    worth: _Worth,
) -> dict[str, str]:
    from auucmax.export import dbt_files
    from auucmax.model import TrialModel

    query = _query(fitted, dialect, keep, worth)
    kept = query.keywords["keep"]
    has_id = kept == "all" or fitted.columns.id in kept
    columns = ["score", "uplift"]
    ranges: dict[str, tuple[float, float]] = {}
    labels: dict[str, list[str]] = {}
    if isinstance(fitted, TrialModel):
        uplifts = fitted.calibration.uplift
        ranges["uplift"] = (min(uplifts), max(uplifts))
    else:
        columns = [*(arm.uplift_name for arm in _arm_scores(fitted, worth)), "arm"]
        labels["arm"] = [*fitted.labels, fitted.control]
    return dbt_files(
        query,
        table=table,
        model=name,
        dialect=dialect,
        columns=columns,
        id=fitted.columns.id if has_id else None,
        ranges=ranges,
        labels=labels,
        comment=_comment(fitted, dialect, worth),
    )


def _arm_scores(fitted: ArmsModel, worth: _Worth) -> list[ArmScore]:
    from auucmax.export import ArmScore

    return [
        ArmScore(label, one.encoder, one.formula, one.calibration, *slope, cost)
        for (label, one), slope, cost in zip(
            fitted.models.items(), fitted.slopes(), worth.costs, strict=True
        )
    ]


# What columns of each kind may be in every database.
_TYPES = {
    "number": "a number",
    "code": "a whole number",
    "category": "text",
    "boolean": "boolean, or 0 and 1",
    "date": "date or timestamp",
}


def _comment(fitted: TrialModel | ArmsModel, dialect: str, worth: _Worth) -> str:
    """Lines before a query: its columns and their types, and by what an arm is chosen."""
    from auucmax.export import DIALECTS
    from auucmax.model import TrialModel

    types, words = dict(_TYPES), DIALECTS[dialect]
    for name in fitted.inputs:
        words.check_name(name)  # Spark replaces ${...} in comments, too; labels are parts of names
    if words.has_truths:
        types["category"] += " (no and yes, true and false: or boolean)"
    if words.reads_dates:
        types["date"] += ", or text as 2024-01-31"
    # As JSON: a line break in a name would end the comment.
    lines = [
        f"--   {json.dumps(column['name'])}: {types[column['kind']]}\n"
        for column in _needs(fitted)["columns"]
    ]
    told = "-- Columns that the scores are made of, and what they hold:\n" + "".join(lines)
    labels = [] if isinstance(fitted, TrialModel) else fitted.labels
    names = [*fitted.inputs, fitted.columns.id or "", *labels]
    if words.backslash == "hex" and not all(map(str.isascii, names)):
        told += (
            "-- Its names are not ASCII: send it in UTF-8 (SET NAMES utf8mb4). In GBK, Big5 or\n"
            "-- Shift-JIS a name may be read beyond its end.\n"
        )
    if isinstance(fitted, TrialModel):
        return told
    by = "uplift, whatever arms cost"
    if any(worth.costs):
        costs = zip(fitted.labels, worth.costs, strict=True)
        prices = ", ".join(f"{json.dumps(label)} {cost:g}" for label, cost in costs)
        by = f"{worth.value:g} times uplift minus cost: {prices}"
    return f"{told}-- arm: that of the highest {by}; the control if none is above 0.\n"


def _needs(fitted: TrialModel | ArmsModel) -> dict[str, Any]:
    """The model, and the columns that its score is made of."""
    from auucmax.model import TrialModel

    models = [fitted] if isinstance(fitted, TrialModel) else list(fitted.models.values())
    sizes = [one.summary.get("n_parameters") for one in models]
    return {
        "model": fitted.model_name,
        "n_parameters": None if None in sizes else sum(size or 0 for size in sizes),
        "columns": [{"name": name, "kind": kind} for name, kind in fitted.inputs.items()],
        "has_uplift": True,
        "arms": None if isinstance(fitted, TrialModel) else fitted.labels,
    }
