"""``auucmax demo``: from the embedded trial to an evaluated ranking and a picture."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from auucmax import Trial
    from auucmax._validation import Floats
    from auucmax.evaluation import AUUCInference


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to save the picture (PNG).")
    ] = Path("auucmax-demo.png"),
) -> None:
    """Learn whom to e-mail from Hillstrom's trial of 2008: check, rank, evaluate, draw.

    Needs no data and no network: the trial is part of the package.
    """
    from auucmax import auuc_inference, check_randomisation, load_hillstrom

    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder; name a file in it, such as curve.png.")
    if not output.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.absolute().parent}; make it first.")
    console = Console()
    trial = load_hillstrom()
    console.print(str(trial), highlight=False)
    with _working(console, "checking the randomisation"):
        report = check_randomisation(trial, expected_share=0.5)
    console.print(f"\n{report.verdict}\n", highlight=False)
    train, test = trial.split(test_size=0.5, random_state=0)
    with _working(console, "fitting one logistic model an arm"):
        score = _two_model_score(train, test)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    console.print(_table(result))
    _draw(test, score, output)
    console.print(f"The uplift curve is in {output}", highlight=False)


def _working(console: Console, what: str) -> AbstractContextManager[Any]:
    return console.status(what) if console.is_terminal else nullcontext()


def _two_model_score(train: Trial, test: Trial) -> Floats:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    arms = []
    for arm in (train.treated, ~train.treated):
        model = make_pipeline(MinMaxScaler(), LogisticRegression())
        arms.append(model.fit(train.X[arm], train.y[arm]).predict_proba(test.X)[:, 1])
    return arms[0] - arms[1]


def _table(result: AUUCInference) -> Table:
    table = Table(title=f"On {result.n_rows:,} rows that the models did not see")
    for column in ("ranking", "AUUC", "95% interval", "gain over random", "p"):
        table.add_column(column, justify="left" if column == "ranking" else "right")
    low, high = result.interval
    table.add_row(
        "two logistic models",
        f"{result.estimate:.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{result.gain:+.4f}",
        f"{result.p_value:.1g}",
    )
    table.add_row("random", f"{result.estimate - result.gain:.4f}", "", "0", "")
    return table


def _draw(test: Trial, score: Floats, output: Path) -> None:
    from matplotlib.figure import Figure

    from auucmax import UpliftCurveDisplay

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ax = figure.subplots()
    UpliftCurveDisplay.from_predictions(
        test.y, score, treatment=test.treatment, name="two models", ax=ax
    )
    ax.set_title("E-mail to the highest estimated uplift first: visits gained")
    # Written beside and renamed: a killed run leaves the old picture whole.
    beside = output.with_name(output.name + ".part")
    figure.savefig(beside, format="png", dpi=150)
    os.replace(beside, output)
