"""Scores of people, from raw columns, by numpy alone: no other library is needed.

    import scores
    scores.scores({"age": [31, None], "town": ["Oslo", "Rome"]})  # arrays, by name

    python scores.py people.csv > scores.csv

A column is a list or an array of numbers, texts, booleans or dates; None and NaN are missing.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import numpy as np

MODEL: dict[str, Any] = json.loads("{}")

MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
BOOLEANS = {"false": 0, "False": 0, "FALSE": 0, "0": 0, "true": 1, "True": 1, "TRUE": 1, "1": 1}
# A number with zeros at the end of its decimals, or -0: the group is the same number without.
END_ZEROS = r"-?(0+)[.]0+|-(0)|(-?0*[1-9][0-9]*)[.]0+|(-?[0-9]+[.][0-9]*[1-9])0+"
NUMBER = r" *-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? *"
# Where a comma is before decimals, points and blanks are between thousands.
COMMA_NUMBER = r" *-?(?:(?:0|[1-9]\d*|[1-9]\d{0,2}(?:[ .]\d{3})+)(?:,\d*)?|,\d+)(?:[eE][+-]?\d+)? *"
MOMENT = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?"
WORDS = {
    "number": "numbers", "code": "numbers", "boolean": "booleans or 0 and 1",
    "date": "dates, as 2024-01-31", "category": "texts, numbers or booleans",
}  # fmt: skip
BLOCK = 16_384  # rows that are scored together: what is made of them stays in the cache
BATCH = 200_000  # rows of a CSV file that are in memory


def scores(table: Mapping[str, Any]) -> dict[str, Any]:
    """``score`` and ``uplift`` of each row; of several arms ``uplift LABEL`` of each, and ``arm``.

    ``table`` has columns by their names, all of one length; it may have more than are needed.
    """
    return scores_of(MODEL, table)


def scores_of(model: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`scores` gives, of any model."""
    if "arms" not in model:
        score, lines = score_of(model["score"], table), model["score"]["calibration"]
        found: dict[str, Any] = {"score": score}
        return found if lines is None else found | {"uplift": np.interp(score, *lines)}
    found = {}
    for arm in model["arms"]:
        score = score_of(arm["score"], table)
        tilt = arm["slope"] * (score - arm["centre"])
        found[f"uplift {arm['label']}"] = np.interp(score, *arm["score"]["calibration"]) + tilt
    net = np.array([*found.values()]).T * model["value"] - [arm["cost"] for arm in model["arms"]]
    # The control comes first, and of equals the first is taken.
    best = np.argmax(np.column_stack([np.zeros(len(net)), net]), axis=1)
    labels = np.array([model["control"], *(arm["label"] for arm in model["arms"])], dtype=object)
    return found | {"arm": labels[best]}


def score_of(model: Mapping[str, Any], table: Mapping[str, Any]) -> Any:
    """(n,) the mean over members of F(constant + sum of weight * link(...)), in blocks of rows."""
    if absent := [c["name"] for c in model["columns"] if c["name"] not in table]:
        raise ValueError(
            f"the table should have the columns of the model, got none named "
            f"{', '.join(map(repr, absent))}. Add them, or rename others."
        )
    values = [read_column(column, table[column["name"]]) for column in model["columns"]]
    if len({len(own) for own in values}) > 1:
        raise ValueError("all columns should have as many rows, got others. Mend the table.")
    blocks = [slice(k, k + BLOCK) for k in range(0, len(values[0]), BLOCK)]

    def score_block(block: slice) -> Any:
        return block_scores(model, [own[block] for own in values])

    if len(blocks) < 2:
        return np.concatenate([np.zeros(0), *map(score_block, blocks)])
    with ThreadPoolExecutor() as pool:
        return np.concatenate(list(pool.map(score_block, blocks)))


def block_scores(model: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """(n,) scores of some rows, by what was read of their columns."""
    made = [effect(own, values) for own in model["features"]]
    hinges = [np.maximum(made[k] - above, 0) for k, above in model["hinges"]]
    sums = [forest(trees, made, len(values[0])) for trees in model["trees"]]
    total = np.zeros(len(values[0]))
    for member in model["members"]:
        own = np.full(len(total), member["constant"])
        for part in member["parts"]:
            z = np.full(len(total), part["intercept"])
            for each in part["effects"]:
                z += effect(each, values)
            for weight, term in zip(part["weights"], [*made, *hinges, *sums], strict=True):
                if weight:
                    z += weight * term
            own += part["weight"] * ((1 + np.tanh(z / 2)) / 2 if part["sigmoid"] else z)
        total += own if member["ranks"] is None else np.interp(own, *member["ranks"])
    return total / len(model["members"])


def effect(own: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """(n,) what a column adds: by its level, by its number, or as a wave of a date."""
    x = values[own["column"]]
    if "levels" in own:
        return np.array(own["levels"])[x]  # the last two are of other values, and of none
    if "period" in own:
        turns = x / own["period"] + own["shift"]
        return np.nan_to_num(np.round(np.sin(2 * np.pi * (turns - np.floor(turns))), 6))
    return np.where(np.isnan(x), own["missing"], own["per_unit"] * x)


def forest(trees: Sequence[Any], made: Sequence[Any], n: int) -> Any:
    """(n,) the sum of trees; a node is [leaf] or [feature, threshold, if at most, if more]."""
    total = np.zeros(n)
    for tree in trees:
        found: dict[int, Any] = {}
        for k in range(len(tree) - 1, -1, -1):  # children come after their parents
            node = tree[k]
            if len(node) == 1:
                found[k] = node[0]
            else:
                feature, threshold, left, right = node
                is_left = made[feature] <= threshold
                found[k] = np.where(is_left, found.pop(left), found.pop(right))
        total += found[0]
    return total


def read_column(column: Mapping[str, Any], given: Any) -> Any:
    """(n,) numbers, NaN where missing; of levels their places, then that of others, of none."""
    found, kind, levels = numbers_of(column, given), column["kind"], column["levels"]
    if np.isinf(found).any():
        raise unfit(column, "infinite ones")
    if kind == "boolean" and not np.isin(found[~np.isnan(found)], (0, 1)).all():
        raise unfit(column, "other numbers")
    if kind == "code":
        known = np.array([float(level) for level in levels])
        place = np.minimum(np.searchsorted(known, found), len(known) - 1)
        found = np.where(np.isnan(found), found, np.where(known[place] == found, place, len(known)))
    if kind in ("code", "category"):
        return np.where(np.isnan(found), len(levels) + 1, found).astype(np.intp)
    return found


def numbers_of(column: Mapping[str, Any], given: Any) -> Any:
    """(n,) numbers, places of texts among the levels, or days since 1970; NaN where missing."""
    kind, known = column["kind"], {level: k for k, level in enumerate(column["levels"])}
    array = None if isinstance(given, (list, tuple)) else np.asarray(given)
    typed = "" if array is None else array.dtype.kind

    def number_of(value: Any) -> float:
        return number_of_value(column, known, value)

    if array is not None and array.ndim != 1:
        raise unfit(column, f"an array of shape {array.shape}")
    if array is not None and typed == "M" and kind == "date":
        micro = array.astype("datetime64[us]")
        return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 86_400e6)
    if array is not None and typed and typed in "biuf" and kind != "date":
        if kind != "category":
            return array.astype(np.float64)
        distinct, place = np.unique(array, return_inverse=True)
        return np.array([number_of(value) for value in distinct], dtype=np.float64)[place]
    values = given if array is None else array.tolist()
    types = set(map(type, values))
    if kind in ("number", "code", "boolean") and types <= {float, int, bool, type(None)}:
        return np.array(values, dtype=np.float64)  # None is NaN
    return spread(column, values, types, number_of)


def spread(
    column: Mapping[str, Any],
    values: Sequence[Any],
    types: set[type],
    number_of: Callable[[Any], float],
) -> Any:
    """(n,) what a function gives, computed once for equal values."""
    keys: Sequence[Any] = values
    # True and 1 are equal, and other texts: they are told apart by their types.
    apart = len(types - {str, type(None)}) > 1
    try:
        if apart:
            keys = list(zip(map(type, values), values, strict=True))
        known = {key: number_of(key[1] if apart else key) for key in set(keys)}
    except TypeError as error:
        raise unfit(column, "lists or other objects") from error
    return np.fromiter(map(known.__getitem__, keys), np.float64, len(keys))


def number_of_value(column: Mapping[str, Any], known: Mapping[str, int], value: Any) -> float:
    """The number, place or days of one value; NaN if it is missing."""
    kind = column["kind"]
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return np.nan
    if kind == "date":
        return days_of(column, value)
    if isinstance(value, date) or not isinstance(
        value, (str, bool, int, float, Decimal, np.generic)
    ):
        raise unfit(column, repr(value)[:50])
    text = level_text(value)
    if kind == "category":
        if isinstance(value, (float, np.floating)) and abs(float(value)) >= exact_below(value):
            raise unfit(column, f"{value!r}, in which several whole numbers fall together")
        if text in known:
            return known[text]
        return np.nan if text in MISSING else known.get(without_end_zeros(text), len(known))
    if text.strip() in MISSING:
        return np.nan
    if kind == "boolean" and without_end_zeros(text) in BOOLEANS:
        return BOOLEANS[without_end_zeros(text)]
    has_commas = column["decimal"] == ","
    written = COMMA_NUMBER if has_commas else NUMBER
    if isinstance(value, str) and (kind == "boolean" or not re.fullmatch(written, text)):
        raise unfit(column, repr(value)[:50])
    if isinstance(value, str) and has_commas:
        value = re.sub("[ .]", "", value).replace(",", ".")
    return float(value)


def exact_below(value: Any) -> float:
    """From here on, floats of this type stand for several whole numbers."""
    return 2.0 ** (np.finfo(type(value)).nmant + 1)


def level_text(value: Any) -> str:
    """The text of a value; equal numbers have one, whatever their type."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value.adjusted()) > 60:
        return str(value)
    if value == value.to_integral_value():
        return str(int(value))
    near = str(float(value))  # small numbers print with an exponent
    return near if Decimal(near) == value else without_end_zeros(format(value, "f"))


def without_end_zeros(text: str) -> str:
    """1.0 as 1, 1.50 as 1.5, -0 as 0; other texts as they are."""
    found = re.fullmatch(END_ZEROS, text) if text.endswith("0") else None
    return "".join(filter(None, found.groups())) if found else text


def days_of(column: Mapping[str, Any], value: Any) -> float:
    """Days since 1970-01-01, UTC, of a date, a moment or an ISO text; without a zone it is UTC."""
    if isinstance(value, str):
        if value.strip() in MISSING:
            return np.nan
        if not re.fullmatch(MOMENT, value.strip()):
            raise unfit(column, repr(value)[:50])
        try:
            value = datetime.fromisoformat(value.strip().replace(" Z", "Z").replace(" +", "+"))
        except ValueError as error:
            raise unfit(column, repr(value)[:50]) from error
    if not isinstance(value, (date, np.datetime64)):
        raise unfit(column, repr(value)[:50])
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return int(np.datetime64(value, "us").astype(np.int64)) / 86_400e6


def unfit(column: Mapping[str, Any], got: str) -> ValueError:
    """The error for a value that a column of this kind does not have."""
    words = WORDS[column["kind"]]
    if column["decimal"] == "," and words == "numbers":
        words = "numbers, as texts with a comma before decimals"
    return ValueError(
        f"column {column['name']!r} should hold {words}, as in training, got "
        f"{got}. Convert the column, or clean these values."
    )


def main(arguments: Sequence[str]) -> int:
    """Write the scores of the rows of a CSV file as CSV; 2 for what cannot be scored."""
    if len(arguments) != 1:
        print("usage: python FILE.py people.csv > scores.csv", file=sys.stderr)
        return 2
    try:
        with open(arguments[0], newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            rows = csv.reader(file, delimiter=max(",;\t", key=first.count))
            unknown = write_scores(next(rows, []), filter(None, rows))
    except (OSError, ValueError, csv.Error) as error:
        print(visible(f"{arguments[0]}: {in_words(error)}"), file=sys.stderr)
        return 2
    for name, texts in unknown.items():
        told = (
            f"{arguments[0]}: {sum(texts.values()):,} values of column {name!r} are no level of "
            f"the model, such as {next(iter(texts))!r}, and count as other texts do."
        )
        print(visible(told), file=sys.stderr)
    return 0


def in_words(error: Exception) -> str:
    """What is wrong with a file, and what to do."""
    if isinstance(error, OSError):
        return f"{error.strerror}. Check the name of the file, and where the scores are written."
    if isinstance(error, UnicodeDecodeError):
        return "the file should be text in UTF-8, got another encoding. Save it as UTF-8."
    if isinstance(error, csv.Error):
        return f"the file should be CSV, got what is none ({error}). Write it again."
    return str(error)


def unknown_levels(table: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Texts of columns that are no level of the model, and how often each is there."""
    found: dict[str, Counter[str]] = {}
    for score in [arm["score"] for arm in MODEL["arms"]] if "arms" in MODEL else [MODEL["score"]]:
        for column in score["columns"]:
            if column["levels"]:
                texts = table[column["name"]]
                other = np.flatnonzero(read_column(column, texts) == len(column["levels"]))
                own = Counter(texts[k] for k in other)
                # A text is told of unless the models of all arms know it.
                own |= found.get(column["name"], Counter())
                found[column["name"]] = own
    return found


def write_scores(header: Sequence[str], rows: Any) -> dict[str, Counter[str]]:
    """Print the columns to keep and the scores of rows of texts, some rows at a time.

    Returns the texts that are no level, by the columns that have some, and how often each is there.
    """
    unknown: dict[str, Counter[str]] = {}
    if len(set(header)) < len(header):
        raise ValueError("the columns should have different names, got one twice. Rename it.")
    out, batch, names = csv.writer(sys.stdout, lineterminator="\n"), list(islice(rows, BATCH)), None
    while batch or names is None:
        if batch and set(map(len, batch)) != {len(header)}:
            raise ValueError("all rows should have as many fields as the header, got others.")
        columns = list(zip(*batch, strict=True)) or [()] * len(header)
        table = dict(zip(header, columns, strict=True))
        kept = {name: table[name] for name in MODEL["keep"] if name in table}
        found = kept | {name: own.tolist() for name, own in scores(table).items()}
        lines: Any = zip(*found.values(), strict=True)
        if names is None:
            names = list(found)
            lines = chain([names], lines)
        # Other programs get texts as they are; a terminal would obey what is in them.
        out.writerows(map(visible_row, lines) if sys.stdout.isatty() else lines)
        for name, texts in unknown_levels(table).items():
            unknown[name] = unknown.get(name, Counter()) + texts
        batch = list(islice(rows, BATCH))
    return {name: texts for name, texts in unknown.items() if texts}


def visible_row(values: Sequence[Any]) -> list[Any]:
    """Values whose texts cannot steer a terminal."""
    return [visible(value) if isinstance(value, str) else value for value in values]


def visible(text: str) -> str:
    """A line without control characters."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
