"""From DATA and column options to the rows of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from auucmax.cli.options import listed

if TYPE_CHECKING:
    import pandas as pd

    from auucmax import Trial


def read_trial(data: str, query: str | None, **named: Any) -> Trial:
    """The rows of both arms, as the library takes them."""
    from auucmax.data.reading import read_table
    from auucmax.trial_model import name_columns, trial_rows

    frame = read_table(data, query=query)
    columns = name_columns(frame, **feature_option(frame, **named))
    return trial_rows(frame, columns).trial(columns)


def feature_option(
    frame: pd.DataFrame, *, features: str | None, ignore: str | None, **named: Any
) -> dict[str, Any]:
    """Columns to learn from, as a list; ``ignore`` takes some out."""
    from auucmax.trial_model.model import check_names

    chosen, left_out = listed(features), listed(ignore)
    if left_out:
        check_names(frame, left_out)
        others = [named["treatment"], named["outcome"], named.get("id")]
        chosen = [str(c) for c in frame.columns if c not in others] if chosen is None else chosen
        chosen = [name for name in chosen if name not in left_out]
    return named | {"features": chosen}
