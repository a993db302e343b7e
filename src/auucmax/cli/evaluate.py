"""``auucmax evaluate``: how good a ranking is on rows that it was not made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax.cli import options
from auucmax.cli.failures import tells_failures
from auucmax.cli.output import between, print_banner, print_json, print_result, unit_for
from auucmax.cli.ranking import lines_of, to_try, verdict_of

if TYPE_CHECKING:
    from auucmax.model import ArmsEvidence, Evidence

#: How a note begins that says how rows of a fit were judged, and warns of nothing.
OWN_ROWS = ("Every row was", "Judged on")
#: The verdict on the file of the fit, which would otherwise be taken for one on new rows.
NOTHING_NEW = (
    "DATA is the file that the model was fitted on, which shows nothing new: what follows was "
    "found then, of rows that models had not seen."
)
MODEL_OR_DATA = "the model file; the model file and new data; or data with --score-column"


@tells_failures
def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] [DATA]", help=MODEL_OR_DATA, show_default=False),
    ],
    score_column: Annotated[
        str | None, typer.Option("--score-column", help="Scores made by any other tool.")
    ] = None,
    treatment: options.ModelKnowsTreatment = None,
    outcome: options.ModelKnowsOutcome = None,
    treated: options.Treated = None,
    control: options.Control = None,
    after: options.After = None,
    lower_is_better: options.LowerIsBetter = False,
    drop_missing_outcomes: options.DropMissing = False,
    groups: options.Groups = None,
    propensity: options.Propensity = None,
    outcome_range: options.OutcomeRange = None,
    new_levels: options.NewLevels = "error",
    query: options.Query = None,
    memory: options.Memory = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    as_json: options.AsJson = False,
    details: options.Details = False,
    quiet: options.Quiet = False,
) -> None:
    """Judge a ranking: AUUC and gain over random with intervals, and a certificate.

    Of a MODEL alone, what was found when it was fitted, on rows that its models had not seen. With
    DATA, what these rows show, which must be new to the model. With --score-column (and
    --treatment, --outcome) scores of any origin are judged; they must not have been made from these
    rows. Rows that fail the check of a trial get a warning first, and no certificate.
    """
    from auucmax.model import ArmsEvidence

    found: Evidence
    named: dict[str, Any] = {
        "treatment": treatment, "outcome": outcome, "treated": treated, "control": control,
        "groups": groups, "outcome_range": outcome_range, "propensity": propensity,
        "lower_is_better": lower_is_better or None,
        "drop_missing_outcomes": drop_missing_outcomes or None,
    }  # fmt: skip
    form = (query, memory, decimal, encoding)
    if score_column is None:
        _check_no_after(after)
        judged, gain, is_own = _by_model(files, new_levels, form, named)
        if isinstance(judged, ArmsEvidence):
            _tell_arms(judged, gain, as_json, is_own)
            return
        found = judged
    elif new_levels == "error":
        found = _by_column(files, score_column, form, named | {"after": after})
        gain, is_own = f"{outcome}{' avoided' if lower_is_better else ''}", False
    else:
        raise ValueError(
            f"--new-levels should come with a MODEL, got {new_levels!r} with --score-column. Leave "
            f"it out: the scores are made already."
        )
    if as_json:
        print_json(found.told())
        return
    _tell(found, gain, files[0] if score_column is None else None, is_own)


def _tell(evidence: Evidence, gain: str, model: str | None, is_own: bool) -> None:
    """What is known of a ranking: harm first, and more rows are no advice then."""
    found, harm = evidence.facts, evidence.harm
    print_banner(found["failed_check"] or found.get("warning"))
    how = [note for note in found["notes"] if note.startswith(OWN_ROWS)]
    others = [note for note in found["notes"] if note not in how]
    none = [] if found["certificate"] else [f"Certificate: {_no_certificate(found)}."]
    verdict = " ".join(filter(None, [harm, verdict_of(found)]))
    verdict, lines = _of_fit(verdict, lines_of(found, gain), is_own)
    advice = [] if harm else to_try(found, model)
    print_result(
        verdict, lines, cautions=[*none, *others, *advice],
        details=_told(found), notes=how,
    )  # fmt: skip


def _of_fit(verdict: str, lines: dict[str, str], is_own: bool) -> tuple[str, dict[str, str]]:
    """Verdict and lines; of the file of the fit the verdict of then is a line."""
    return (NOTHING_NEW, {"found at the fit": verdict} | lines) if is_own else (verdict, lines)


def _tell_arms(found: ArmsEvidence, gain: str, as_json: bool, is_own: bool) -> None:
    from auucmax.cli.arms import as_json as for_machines
    from auucmax.cli.arms import harm_of_arms, lines_of_arms, told_of_arms, verdict_of_arms

    if as_json:
        print_json(for_machines(found))
        return
    print_banner(found["failed_check"])
    how = [note for note in found["notes"] if note.startswith(OWN_ROWS)]
    others = [note for note in found["notes"] if note not in how]
    verdict = " ".join([*harm_of_arms(found), verdict_of_arms(found)])
    verdict, lines = _of_fit(verdict, lines_of_arms(found, gain), is_own)
    print_result(
        verdict, lines, cautions=others, details=told_of_arms(found), notes=how,
    )  # fmt: skip


def _told(found: dict[str, Any]) -> dict[str, str]:
    auuc, unit = found["auuc"], unit_for(found["rows"])
    told = {"certificate": (found["certificate"] or {"text": _no_certificate(found)})["text"]}
    if found["failed_check"] is not None:
        return told
    return {
        "judged on": f"{found['rows']['n_rows']:,} rows",
        "AUUC": between(auuc, "estimate", "lower", "upper", **unit),
        "gain over a random order": between(
            auuc, "gain", "gain_lower", "gain_upper", **unit, sign=True
        ),
        "Qini": f"{found['qini'] * unit.get('scale', 1):.{unit['digits']}f}",
    } | told


def _check_no_after(after: list[str] | None) -> None:
    if after:
        raise ValueError(
            f"--after should come with --score-column, got {', '.join(after)}. Leave it out: the "
            f"MODEL knows its columns."
        )


def _no_certificate(found: dict[str, Any]) -> str:
    if found["failed_check"] is not None:
        return "none, for the check of the trial fails"
    if not found["rows"]["binary"]:
        return "none, for outcomes are not 0/1 and no range of them is known (--outcome-range)"
    return "none"


def _by_model(
    files: list[str],
    new_levels: str,
    form: tuple[Any, ...],
    named: dict[str, Any],
) -> tuple[Evidence | ArmsEvidence, str, bool]:
    """What is known of a model, or what rows show; the name of what is gained; whether the rows are
    those of the fit, and show nothing else."""
    from auucmax.cli.trials import Source, check_decided, read_model, read_rows, take_chances
    from auucmax.model import ArmsEvidence

    if len(files) not in (1, 2):
        names = ", ".join(files)
        raise ValueError(f"evaluate should get {MODEL_OR_DATA}; got {names}. Name two at most.")
    drop = bool(named.pop("drop_missing_outcomes"))
    model = read_model(Path(files[0]), new_levels, drop)
    if len(files) == 2:
        take_chances(model, named.pop("propensity"))
    check_decided(model.columns, **named)
    evidence, is_own = model.evidence, False
    if len(files) == 2:
        # A look at one's own rows; a page, which is given to others, has fewer numbers.
        evidence = model.judge(read_rows(Source(files[1], *form), model), every_percent=True)
        is_own = evidence.facts is model.evidence.facts
    if isinstance(evidence, ArmsEvidence):
        return evidence, model.columns.gain, is_own
    told = {} if model.warning is None else {"warning": model.warning}
    return replace(evidence, facts=told | evidence.facts), model.columns.gain, is_own


def _by_column(
    files: list[str],
    column: str,
    form: tuple[Any, ...],
    named: dict[str, Any],
) -> Evidence:
    if len(files) != 1 or named["treatment"] is None or named["outcome"] is None:
        raise ValueError(
            "evaluate with --score-column should get one DATA, --treatment and --outcome; got "
            "something else. A MODEL makes its own scores."
        )
    if column in (named["treatment"], named["outcome"]):
        raise ValueError(
            f"--score-column should be another column than --treatment and --outcome, got "
            f"{column!r}. Name the column of scores."
        )
    from auucmax._validation import check_column, check_groups
    from auucmax.cli.trials import Source, column_options, enough_rows, read_rows
    from auucmax.model import Judged, evidence_of, name_columns, trial_rows
    from auucmax.model.model import beyond_note, certified
    from auucmax.model.rows import chances_note, check_trial_rows

    table = enough_rows(read_rows(Source(files[0], *form)))
    columns = name_columns(table, **(column_options(table, **named) | {"features": [column]}))
    rows = trial_rows(table, columns)
    # Many people may share a score: the other columns tell them apart.
    rows.check_copies(columns, all_columns=True)
    score = check_column(rows.frame[column].to_numpy(), f"the scores {column!r}")
    codes = None if rows.groups is None else check_groups(rows.groups, len(rows.y))
    judged = Judged(rows.y, score, rows.treated, codes, rows.propensity, rows.people)
    bounded = columns.bounded(judged.y)
    certificate = certified(judged, bounded)
    note = f"Scores from {column!r}: the numbers hold if they were not made from these rows."
    notes = [note, *chances_note(columns, rows.propensity)]
    return evidence_of(
        judged,
        certificate=certificate,
        beyond="" if bounded is None else bounded.told,
        randomisation=check_trial_rows(rows, columns),
        lower_is_better=columns.lower_is_better,
        every_percent=True,
        notes=[*notes, *beyond_note(judged, bounded, certificate)],
    )
