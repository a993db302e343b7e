"""``auucmax assign``: who goes into which arm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import (
    check_table_target,
    note,
    print_json,
    print_result,
    print_text,
    tell_formulas,
    working,
    write_frame,
)

if TYPE_CHECKING:
    import pandas as pd

    from auucmax.campaign import Assignment
    from auucmax.model import ArmsModel, TrialModel


@tells_failures
def assign(
    data: Annotated[str, typer.Argument(metavar="PEOPLE", help="The people: a table as for fit.")],
    id: Annotated[str, typer.Option("--id", help="Column of ids, each once.")],
    key: Annotated[
        str,
        typer.Option(
            "--key",
            help="A secret, a new one for each trial: arms depend on it and ids. Choose a long "
            "text: `rule` in the list is a fingerprint of it, by which a short one can be guessed.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="List to write, .csv or .parquet.")
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option("--arms", help='Names and shares, control first: "control=.5,mail=.5".'),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            help="Column of the household or shop that goes into one arm. A MODEL knows it.",
        ),
    ] = None,
    strata: Annotated[
        list[str] | None,
        typer.Option("--strata", help="Columns within whose values shares are exact (blocks)."),
    ] = None,
    blocked: Annotated[
        bool, typer.Option("--blocked", help="Exact shares without strata, too: permuted blocks.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="In place of --arms: treat the top --share by its scores."),
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", "-s", help="Share that the model chooses, as .3.")
    ] = None,
    explore: Annotated[
        float,
        typer.Option(help="Part of the chosen that stays untreated, and of the rest that is not."),
    ] = 0.1,
    add: Annotated[
        bool, typer.Option("--add", help="Add people to the list; those in it stay as they are.")
    ] = False,
    sql: Annotated[
        str | None, typer.Option("--sql", help="Print the rule as SQL: duckdb or postgres.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", help="Of --sql, if it is not called as the file; of a database."),
    ] = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Assign people to arms at random, so that anybody with the key comes to the same.

    Writes id, arm and propensity, the chance of treatment; of several arms "chance LABEL" of each,
    which `fit --propensity chance` takes. With a model: the top share is treated
    but for a random part, and a random part of the rest is, so that what it gains can be told
    later. A list is never overwritten; --add leaves its people where they are. What was known of
    the people is compared between the arms, and printed.
    """
    from auucmax.campaign import assign as assigned
    from auucmax.campaign import assignment_sql
    from auucmax.cli.trials import Source, check_points, read_model
    from auucmax.data.reading import read_table

    if output is None and sql is None:
        raise ValueError("--output should name the list to write, got none. Pass -o people.csv.")
    if output is not None:
        check_table_target(output, data)
        _check_old(output, add)
    if sql is not None:
        _check_sql(sql, data, table, arms, model)
    source = Source(data, query, decimal, encoding)
    with working("reading"):
        people = read_table(source.data, query=query, decimal=decimal, encoding=encoding)
    chosen = options.listed_columns(strata, {str(name) for name in people.columns}) or []
    how: dict[str, Any] = {"id": id, "key": key, "arms": arms, "groups": groups}
    how |= {"strata": chosen, "blocked": blocked}
    text = None
    if sql is not None:
        _check_same_texts(people, [groups or id, *chosen])
        text = assignment_sql(**how, table=table or Path(data).stem, dialect=sql)
        if not as_json:
            print_text(text)
        if output is None:
            if as_json:
                print_json({"sql": text, "dialect": sql})
            return
    fitted = None if model is None else read_model(model, new_levels)
    if fitted is not None:
        check_points(people, fitted)
    decision = _decision(fitted, share, len(people))
    old = None if output is None or not add else read_table(str(output))
    with working("assigning"):
        found = assigned(people, **how, model=fitted, share=share, explore=explore, before=old)
    assert output is not None
    _write(found, output, old)
    caution = _caution(found, share)
    if as_json:
        more = {"caution": caution, "exploration": _exploration(found), "decision": decision}
        more |= {"sql": text, "file": str(output)}
        print_json(found.to_dict() | more)
    else:
        _show(found, output, old, caution)


def _decision(
    model: TrialModel | ArmsModel | None, share: float | None, n: int
) -> dict[str, Any] | None:
    """Whether to treat those whom a model chooses of n people; harm is told in a note."""
    from auucmax.cli.arms import harm_of_arms
    from auucmax.model import TrialModel
    from auucmax.model.arm_choosing import decision_at

    if model is None or share is None:
        return None
    harm, who = list[str](), "the people whom the model chooses"
    if isinstance(model, TrialModel):
        found = model.evidence.decision_at(share, who)
    else:
        found, harm = decision_at(model, share, n, who), harm_of_arms(model.evidence)
    for text in [found.lead, *harm] if found.state == "harm" else harm:
        note(text)
    return found.to_dict(who)


def _check_old(output: Path, add: bool) -> None:
    if output.exists() and not add:
        raise ValueError(
            f"the list should be a new file, got {output.name}, which is there: people would "
            f"change their arms. Pass --add to add people to it, or name another file."
        )
    if add and not output.exists():
        raise ValueError(
            f"the list to add people to should be there, got nothing at {output}. Leave --add out "
            f"to begin it."
        )


def _check_sql(
    sql: str, data: str, table: str | None, arms: str | None, model: Path | None
) -> None:
    from auucmax._validation import check_choice

    check_choice(sql, "--sql", ("duckdb", "postgres"))
    if model is not None or arms is None:
        raise ValueError(
            "--sql should come with --arms and without --model, whose scores `auucmax export` "
            "writes as SQL. Leave one out."
        )
    if table is None and "://" in data:  # no name would be in it, but a password perhaps
        raise ValueError(
            "--table should say which table the SQL reads, got none for PEOPLE of a database. Pass "
            "--table people, for example."
        )


def _check_same_texts(people: pd.DataFrame, names: list[str]) -> None:
    """Raise a ValueError for columns that a database may write as other texts than assign does.

    As the text 7.0, say, of a number that is 7 here: the query would deal other arms.
    """
    from pandas.api import types

    for name in names:
        if name not in people:
            continue
        own = people[name].dropna()
        is_moment = types.is_datetime64_any_dtype(own) and (own != own.dt.normalize()).any()
        if types.is_float_dtype(own) or is_moment:
            raise ValueError(
                f"--sql should come with ids, groups and strata that are whole numbers or texts, "
                f"got {'moments' if is_moment else 'numbers with decimals'} in {name!r}, which "
                f"databases write in other ways, so that people would have other arms. Make them "
                f"whole numbers or texts, or leave --sql out."
            )


def _write(found: Assignment, output: Path, old: pd.DataFrame | None) -> None:
    """The whole list; what a CSV file holds already stays as it is, byte for byte."""
    import io

    import pandas as pd

    from auucmax._files import whole_file

    if old is None:
        write_frame(found.people, output)
    elif len(found.people) == 0:
        return
    elif output.suffix.lower() == ".parquet":
        write_frame(pd.concat([old, found.people[list(old.columns)]]), output)
    else:
        before = output.read_bytes()
        ending = _ending(before, found.people, output.name)
        lines = io.StringIO()
        found.people.to_csv(lines, index=False, header=False, lineterminator=ending)
        with whole_file(output) as beside:
            between = "" if before.endswith(b"\n") else ending
            beside.write_bytes(before + f"{between}{lines.getvalue()}".encode())
        tell_formulas(found.people)


def _ending(before: bytes, people: pd.DataFrame, name: str) -> str:
    """How the lines of a list end; a ValueError if those of people would be no lines of it."""
    header = people.head(0).to_csv(index=False, lineterminator="\n").removesuffix("\n")
    try:
        text = before.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    for ending in ("\n", "\r\n"):
        if text.startswith(f"{header}{ending}"):
            return ending
    raise ValueError(
        f"the list to add people to should be as auucmax writes it, in UTF-8, with commas and the "
        f"first line {header}, got {name} in another form. Save it so, or write another list."
    )


def _exploration(found: Assignment) -> str | None:
    """How many get something else than the model chose for them; None without a model."""
    if "chosen" not in found.people:
        return None
    control, *treated = found.arms
    arm, chosen = found.people["arm"], found.people["chosen"]
    if len(treated) > 1:
        return f"{int((arm != chosen).sum()):,} get another arm than was chosen, by chance"
    sent, picked = (arm != control).to_numpy(), chosen.to_numpy(dtype=bool)
    return (
        f"{int((picked & ~sent).sum()):,} of the {int(picked.sum()):,} chosen are left out, and "
        f"{int((~picked & sent).sum()):,} of the {int((~picked).sum()):,} others treated, by chance"
    )


_FAR = 0.05  # of people: a share that is missed by more is told of


def _caution(found: Assignment, share: float | None) -> str | None:
    """Whether groups are too few, or too unequal, for the share that was asked for."""
    # Of several arms a model may choose fewer: none of them helps the others.
    if share is None or len(found.arms) > 2 or "chosen" not in found.people:
        return None
    chosen = float(found.people["chosen"].mean())
    if abs(chosen - share) <= _FAR:
        return None
    n_units = found.people[found.groups or found.people.columns[0]].nunique()
    units = "people" if found.groups is None else f"groups of {found.groups!r}"
    return (
        f"The model was to choose {share:.0%} of the people and chose {chosen:.0%}: {n_units:,} "
        f"{units}, each chosen as a whole or not, are too few or too unequal for that share. Pass "
        f"a --share that they can have, or more people."
    )


def _show(found: Assignment, output: Path, old: pd.DataFrame | None, caution: str | None) -> None:
    n = len(found.people)
    rows = {arm: f"{count:,} ({count / max(n, 1):.1%})" for arm, count in found.counts.items()}
    if "chosen" in found.people:
        n_chosen = found.to_dict()["n_chosen"]
        rows["chosen by the model"] = f"{n_chosen:,} ({n_chosen / max(n, 1):.1%})"
        rows["exploration"] = str(_exploration(found))
    if old is not None:
        rows["in the list before"] = f"{len(old):,}, of whom {found.n_before:,} are in the table"
    if found.groups is not None:
        rows["in one arm"] = f"all people of one {found.groups!r}"
    for name, report in found.balance.items():
        rows[f"balance of {name}"] = report.verdict
    cautions = [] if caution is None else [caution]
    if any(not report.ok for report in found.balance.values()):
        cautions.insert(
            0,
            "Arms were dealt at random, so what differs does so by chance; trying keys until "
            "nothing does would be no randomisation. Stratify by it before the list is used.",
        )
    verdict = f"{n:,} people are assigned to {len(found.arms)} arms at random."
    if not n:
        verdict = f"Nobody is new: {output} is as it was."
    print_result(verdict, rows, cautions=cautions, written=[f"Written to {output}."] if n else [])
