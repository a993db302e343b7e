"""Types of columns of CSV files: by all of their texts, in one file or several."""

import numpy as np
import pandas as pd
import pytest

from auucmax.data.reading import read_table
from auucmax.encoding.kinds import MISSING_TEXTS


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1", "-20", " 3 "], [1, -20, 3]),
        (["1", "0.5", "1e-3"], [1.0, 0.5, 0.001]),
        (["0.5", "12345678901234567890"], [0.5, 12345678901234567890.0]),
        (["2024-01-31"], [pd.Timestamp("2024-01-31")]),
        (
            ["2024-01-31", "2024-01-31 10:00"],
            [pd.Timestamp("2024-01-31"), pd.Timestamp("2024-01-31 10:00")],
        ),
        (["2024-01-31T10:00Z"], [pd.Timestamp("2024-01-31T10:00Z")]),
        (["2024-01-31T10:00Z", "2024-01-31"], None),
        (["1", "2024-01-31"], None),
        (["true", "false"], None),
        (["1", "?", "-"], None),
        (["?"], None),
        (["1", "2", "a", "?"], None),
    ],
)
def test_the_type_of_a_column_is_that_of_all_its_texts(texts, values, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("c,v\n" + "".join(f'"{text}",1\n' for text in texts))
    assert read_table(path)["c"].tolist() == (texts if values is None else values)


def test_texts_that_stand_for_nothing_are_missing_in_a_csv_file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("c,v\n" + "".join(f"{text},1\n" for text in ("x", *MISSING_TEXTS)))
    assert read_table(path)["c"].isna().tolist() == [False] + [True] * len(MISSING_TEXTS)


def kinds_of(tmp_path, *texts):
    """The columns of CSV files that are read together."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text(text)
    return read_table(tmp_path).to_dict("list")


@pytest.mark.parametrize(
    "values",
    [
        ["2020/01/02"], ["2020-02-30"],
        ["2020-01-01", "unknown"], ["2020-01-01T10:00", "2020-01-01T10:00Z"], ["infinity"],
        ["00123", "1234"], ["1_000"], ["+4712345678"], ["1.10", "beta"],
        ["12345678901234567890", "5"], ["9223372036854775808"], ["1e999", "2"], ["10:00", "12:30"],
    ],
)  # fmt: skip
def test_texts_that_stay_texts_in_one_file_and_over_two(values, tmp_path):
    lines = "".join(f'"{value}",0\n' for value in values)
    assert kinds_of(tmp_path, f"c,v\n{lines}")["c"] == values
    (tmp_path / "two").mkdir()
    files = [f'c,v\n"{value}",0\n' for value in values]
    assert kinds_of(tmp_path / "two", *files)["c"] == values


def test_numbers_and_missing_values_of_csv_files(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["i,x,s,none", "1,0.5,NA,", "-2,1e-3,None,NULL", " 3 ,-.5,a b,N/A", "0,5.,nan,NaN"]
    path.write_text("\n".join(lines))
    frame = read_table(path)
    assert frame["i"].dtype == np.int64
    assert frame["i"].tolist() == [1, -2, 3, 0]
    assert frame["x"].tolist() == [0.5, 1e-3, -0.5, 5.0]
    assert frame["s"].tolist()[1:3] == ["None", "a b"]
    assert frame["s"].isna().tolist() == [True, False, False, True]
    assert frame["none"].isna().all()


# Texts, and what they are with each decimal sign; None: texts.
BY_DECIMAL = {
    "1,234": {",": 1.234, ".": 1234.0},
    "1.234": {",": 1234.0, ".": 1.234},
    "1.234,5": {",": 1234.5, ".": None},
    "1,234.5": {",": None, ".": 1234.5},
    "1 234,5": {",": 1234.5, ".": None},
    "1 234.5": {",": None, ".": 1234.5},
    "-0,5": {",": -0.5, ".": None},
    ",5": {",": 0.5, ".": None},
    "2,5e3": {",": 2500.0, ".": None},
    "1,5": {",": 1.5, ".": None},
    "1.5": {",": None, ".": 1.5},
    "12": {",": 12.0, ".": 12.0},
    "€ 3,50": {",": 3.5, ".": None},
    "$3.50": {",": None, ".": 3.5},
    "00123": {",": None, ".": None},
    "12,34,56": {",": None, ".": None},
    "1.23.456": {",": None, ".": None},
}


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.filterwarnings("ignore:.* read as:UserWarning")
def test_a_decimal_sign_that_is_known_decides(decimal, tmp_path):
    path = tmp_path / "rows.csv"
    for text, expected in BY_DECIMAL.items():
        path.write_text(f'c,v\n"{text}",x\n')
        value = read_table(path, decimal=decimal)["c"][0]
        assert value == (text if expected[decimal] is None else expected[decimal])
