"""From DATA and column options to the rows of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from auucmax.cli.options import listed
from auucmax.cli.output import working

if TYPE_CHECKING:
    import pandas as pd

    from auucmax import Trial


def read_rows(data: str, query: str | None) -> pd.DataFrame:
    """The table, with a spinner while it is read."""
    from auucmax.data.reading import read_table

    with working("reading"):
        return read_table(data, query=query)


def read_trial(data: str, query: str | None, **named: Any) -> Trial:
    """The rows of both arms, as the library takes them."""
    from auucmax.trial_model import name_columns, trial_rows

    frame = read_rows(data, query)
    columns = name_columns(frame, **column_options(frame, **named))
    return trial_rows(frame, columns).trial(columns)


def column_options(
    frame: pd.DataFrame, *, features: str | None, ignore: str | None, **named: Any
) -> dict[str, Any]:
    """Columns to learn from, as a list, of which ``ignore`` takes some out; labels as they are."""
    from auucmax.trial_model.model import check_names

    _check_parts(named)
    chosen, left_out = listed(features), listed(ignore)
    if left_out:
        check_names(frame, left_out)
        others = [named["treatment"], named["outcome"], named.get("id")]
        chosen = [str(c) for c in frame.columns if c not in others] if chosen is None else chosen
        chosen = [name for name in chosen if name not in left_out]
    return named | arm_labels(frame, **named) | {"features": chosen}


def _check_parts(named: dict[str, Any]) -> None:
    """One column cannot say who was treated and what came of it."""
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
    frame: pd.DataFrame,
    *,
    treatment: str,
    treated: str | None,
    control: str | None,
    **others: Any,
) -> dict[str, str | None]:
    """Labels of the arms as the table spells them: blanks around them are hard to see."""
    from auucmax.estimators.table_encoder import level_text

    given = {"treated": treated, "control": control}
    if treatment not in frame.columns:
        return given
    labels = [level_text(value) for value in frame[treatment].dropna().unique()]
    for arm, label in given.items():
        if label is not None and label not in labels:
            alike = [other for other in labels if other.strip() == label.strip()]
            given[arm] = alike[0] if len(alike) == 1 else label
    return given
