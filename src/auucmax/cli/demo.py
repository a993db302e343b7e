"""``auucmax demo``: from the embedded trial to evaluated rankings and a picture."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from auucmax._files import check_target, whole_file
from auucmax.cli.failures import tells_failures
from auucmax.cli.options import AsJson
from auucmax.cli.output import print_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from auucmax import Trial
    from auucmax._validation import Floats
    from auucmax.evaluation import AUUCInference

NOTE = (
    "TM: a logistic model of each arm. CVT: class transformation. AUUC-max chooses its norm by the "
    "paper's bound or by cross-validation. AUUC is the gain in visits per person, averaged over "
    "all shares that one could e-mail; intervals are asymptotic. The paper's bound is what its "
    "Theorem 1 prints for the training rows: it serves to choose, and it is no guarantee, since "
    "the statement does not hold as printed."
)


class Ranking(NamedTuple):
    """A fitted model, and what it came to on rows that it has not seen."""

    name: str
    model: Any
    score: Floats
    auuc: AUUCInference
    seconds: float

    @property
    def paper_bound(self) -> float | None:
        bound = getattr(self.model, "paper_bound_", None)
        return None if bound is None else float(bound.lower)

    def to_dict(self) -> dict[str, Any]:
        """All that the table shows, without rounding."""
        return {
            "ranking": self.name,
            "auuc": asdict(self.auuc),
            "paper_bound": self.paper_bound,
            "n_parameters": self.model.n_parameters_,
            "fit_seconds": self.seconds,
        }


@tells_failures
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to save the picture (PNG).")
    ] = Path("auucmax-demo.png"),
    as_json: AsJson = False,
) -> None:
    """Learn whom to e-mail from Hillstrom's trial of 2008: check, rank, evaluate, draw.

    Needs no data and no network: the trial is part of the package. --json prints the numbers of
    the table; the picture is saved all the same.
    """
    from rich.console import Console

    from auucmax import check_randomisation, load_hillstrom

    check_target(output)
    console = Console(quiet=as_json)
    trial = load_hillstrom()
    console.print(str(trial), highlight=False)
    models = _models()
    rankings = []
    with _progress(console) as progress:
        task = progress.add_task("checking the randomisation", total=len(models) + 1)
        report = check_randomisation(trial, expected_share=0.5)
        train, test = trial.split(test_size=0.5, random_state=0)
        for name, model in models.items():
            progress.update(task, advance=1, description=f"fitting {name}")
            rankings.append(_ranking(name, model, train, test))
        progress.update(task, advance=1, description="done")
    console.print(f"\n{report.verdict}\n", highlight=False)
    console.print(_table(rankings))
    console.print(NOTE, highlight=False)
    _draw(test, {ranking.name: ranking.score for ranking in rankings}, output)
    where = f"\nThe uplift curves are in {output}"
    console.print(where, highlight=False, markup=False, soft_wrap=not console.is_terminal)
    if as_json:
        told = {"trial": trial.summary().to_dict(), "randomisation": report.to_dict(),
                "rankings": [ranking.to_dict() for ranking in rankings],
                "random_auuc": _of_random(rankings), "note": NOTE, "file": str(output)}  # fmt: skip
        print_json(told)


def _ranking(name: str, model: Any, train: Trial, test: Trial) -> Ranking:
    from threadpoolctl import threadpool_limits

    from auucmax import auuc_inference

    start = time.perf_counter()
    with threadpool_limits(1, user_api="blas"):  # a second thread would only wait
        model.fit(train.X, train.y, treatment=train.treatment)
    seconds = time.perf_counter() - start
    score = model.predict(test.X)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    return Ranking(name, model, score, result, seconds)


def _models() -> dict[str, Any]:
    from auucmax import AUUCMax, ClassTransformation, TwoModels

    return {
        "TM": TwoModels(),
        "CVT": ClassTransformation(),
        "AUUC-max, bound": AUUCMax(selection="bound", random_state=0),
        "AUUC-max, CV": AUUCMax(selection="cv", random_state=0),
    }


def _progress(console: Console) -> Progress:
    """A bar that goes away when done, and none where nobody looks."""
    from rich.progress import Progress

    return Progress(console=console, transient=True, disable=not console.is_terminal)


def _of_random(rankings: list[Ranking]) -> float:
    """AUUC of a random order: half the average effect, the same for all."""
    return rankings[-1].auuc.estimate - rankings[-1].auuc.gain


def _table(rankings: list[Ranking]) -> Table:
    from rich.table import Table

    table = Table(title=f"On {rankings[0].auuc.n_rows:,} rows that no model has seen")
    for column in ("ranking", "AUUC", "95% interval", "paper's bound", "params", "fit"):
        table.add_column(column, justify="left" if column == "ranking" else "right")
    for ranking in rankings:
        low, high = ranking.auuc.interval
        table.add_row(
            ranking.name,
            f"{ranking.auuc.estimate:.4f}",
            f"{low:.4f}-{high:.4f}",
            "" if ranking.paper_bound is None else f"{ranking.paper_bound:.4f}",
            str(ranking.model.n_parameters_),
            f"{ranking.seconds:.2f} s",
        )
    table.add_row("random", f"{_of_random(rankings):.4f}", "", "", "", "")
    return table


def _draw(test: Trial, scores: dict[str, Floats], output: Path) -> None:
    from matplotlib.figure import Figure

    from auucmax import UpliftCurveDisplay

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    chosen = {"AUUC-max, CV": "#1f5a99", "TM": "#d1672a"}
    for name, color in chosen.items():
        UpliftCurveDisplay.from_predictions(
            test.y,
            scores[name],
            treatment=test.treatment,
            name=name,
            band=name.startswith("AUUC-max"),
            ax=ax,
            color=color,
        )
    ax.set_title("E-mail to the highest score first: visits gained")
    with whole_file(output) as beside:
        figure.savefig(beside, format="png", dpi=150)
