"""``auucmax demo``: from the embedded trial to evaluated rankings and a picture."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auucmax._files import check_target, whole_file
from auucmax.cli.failures import tells_failures

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


@tells_failures
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to save the picture (PNG).")
    ] = Path("auucmax-demo.png"),
) -> None:
    """Learn whom to e-mail from Hillstrom's trial of 2008: check, rank, evaluate, draw.

    Needs no data and no network: the trial is part of the package.
    """
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    from auucmax import auuc_inference, check_randomisation, load_hillstrom

    check_target(output)
    console = Console()
    trial = load_hillstrom()
    console.print(str(trial), highlight=False)
    models = _models()
    rows, scores = [], {}
    with _progress(console) as progress:
        task = progress.add_task("checking the randomisation", total=len(models) + 1)
        report = check_randomisation(trial, expected_share=0.5)
        train, test = trial.split(test_size=0.5, random_state=0)
        for name, model in models.items():
            progress.update(task, advance=1, description=f"fitting {name}")
            start = time.perf_counter()
            with threadpool_limits(1, user_api="blas"):  # a second thread would only wait
                model.fit(train.X, train.y, treatment=train.treatment)
            seconds = time.perf_counter() - start
            scores[name] = model.predict(test.X)
            result = auuc_inference(test.y, scores[name], treatment=test.treatment)
            rows.append((name, model, result, seconds))
        progress.update(task, advance=1, description="done")
    console.print(f"\n{report.verdict}\n", highlight=False)
    console.print(_table(rows))
    console.print(NOTE, highlight=False)
    _draw(test, scores, output)
    where = f"\nThe uplift curves are in {output}"
    console.print(where, highlight=False, markup=False, soft_wrap=not console.is_terminal)


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


def _table(rows: Iterable[tuple[str, Any, AUUCInference, float]]) -> Table:
    from rich.table import Table

    rows = list(rows)
    table = Table(title=f"On {rows[0][2].n_rows:,} rows that no model has seen")
    for column in ("ranking", "AUUC", "95% interval", "paper's bound", "params", "fit"):
        table.add_column(column, justify="left" if column == "ranking" else "right")
    for name, model, result, seconds in rows:
        low, high = result.interval
        bound = getattr(model, "paper_bound_", None)
        table.add_row(
            name,
            f"{result.estimate:.4f}",
            f"{low:.4f}-{high:.4f}",
            "" if bound is None else f"{bound.lower:.4f}",
            str(model.n_parameters_),
            f"{seconds:.2f} s",
        )
    table.add_row("random", f"{result.estimate - result.gain:.4f}", "", "", "", "")
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
