"""Tables from files, folders and databases; and every failure in one line.

Decimal signs and encodings of CSV files that do not show them.
"""

import gzip
import re
import sys
import warnings
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.cli.commands import run

from auucmax._errors import InputError
from auucmax.data.databases import DECIMAL, GUESSED, check_decimal
from auucmax.data.reading import read_table
from auucmax.data.tables import TableError

ROWS = (
    "id,age,income,town,member,joined,seen\n"
    "1,30,10.5,Oslo,true,2024-01-01,2024-01-01 12:00:00\n"
    '2,,-3,"Rome, old",false,2024-02-03,2024-02-03 00:00:00\n'
    "3,NA,NULL,,,,\n"
)
LONG = 1_800_000_000_000_000_001


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def check_kinds(frame, of_csv=False):
    types = pd.api.types
    assert frame["id"].tolist() == [1, 2, 3]
    assert types.is_numeric_dtype(frame["age"])
    assert frame["age"].isna().tolist() == [False, True, True]
    assert frame["income"].tolist()[:2] == [10.5, -3]
    assert frame["town"].tolist()[:2] == ["Oslo", "Rome, old"]
    assert frame["town"].isna().tolist() == [False, False, True]
    if of_csv:  # words stay words, also those for booleans
        assert frame["member"].str.lower().tolist()[:2] == ["true", "false"]
    else:
        assert types.is_bool_dtype(frame["member"])
    assert frame["member"].isna().tolist() == [False, False, True]
    assert types.is_datetime64_any_dtype(frame["joined"])
    assert frame["seen"][0] == pd.Timestamp("2024-01-01 12:00")


def test_kinds_of_columns_of_a_csv_file(csv):
    check_kinds(read_table(csv), of_csv=True)
    check_kinds(read_table(str(csv)), of_csv=True)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow", "jsonl", "tsv", "csv.gz"])
def test_the_same_table_in_other_formats(csv, suffix, tmp_path):
    path = tmp_path / f"other.{suffix}"
    frame = read_table(csv)
    frame["member"] = frame["member"].map({"true": True, "false": False}).astype("boolean")
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "feather":
        frame.to_feather(path)
    elif suffix == "arrow":  # a stream, not a file with a footer
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    elif suffix == "jsonl":
        dates = {name: frame[name].map(str, na_action="ignore") for name in ("joined", "seen")}
        frame.assign(**dates).to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    check_kinds(read_table(path), of_csv=suffix in ("tsv", "csv.gz"))


def test_folders_and_patterns_in_the_order_of_names(tmp_path):
    for name, values in (("b", "3,4"), ("a", "1,2"), ("c", "5,6")):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{values}\n")
    # Columns are matched by name.
    (tmp_path / "d.csv").write_text("y,x\n8,7\n")
    for source in (tmp_path, f"{tmp_path}/*.csv"):
        frame = read_table(source)
        assert frame["x"].tolist() == [1, 3, 5, 7]
        assert frame["y"].tolist() == [2, 4, 6, 8]
    (tmp_path / "e.parquet").write_bytes(b"PAR1....")
    with pytest.raises(TableError, match="CSV files only, or Parquet files only"):
        read_table(tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_the_name_of_a_folder_is_no_column(suffix, tmp_path):
    folder = tmp_path / "arm=9"
    folder.mkdir()
    frame = pd.DataFrame({"arm": [1, 0], "v": [2, 3]})
    if suffix == "csv":
        frame.to_csv(folder / "f.csv", index=False)
    elif suffix == "parquet":
        frame.to_parquet(folder / "f.parquet")
    else:
        frame.to_json(folder / "f.jsonl", orient="records", lines=True)
    for source in (tmp_path, folder / f"f.{suffix}"):
        assert read_table(source).to_dict("list") == {"arm": [1, 0], "v": [2, 3]}


def test_long_numbers_keep_their_digits_in_files_of_texts(tmp_path):
    wide = 10**22
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b,c\n{LONG},{wide + 1},{LONG}\n{LONG + 2},{wide + 2},\n")
    frame = read_table(path)
    assert [int(a) for a in frame["a"]] == [LONG, LONG + 2]
    assert frame["a"].dtype == np.int64
    assert frame["b"].tolist() == [str(wide + 1), str(wide + 2)]
    assert int(frame["c"][0]) == LONG
    path = tmp_path / "rows.jsonl"
    path.write_text(
        f'{{"a": {LONG}, "b": {wide + 1}, "c": {2**63 + 1}, "d": "03/04/2020", "e": 1.5}}\n'
        f'{{"a": {LONG + 2}, "b": {wide + 2}, "c": null, "d": "05/04/2020", "e": 2}}\n'
    )
    frame = read_table(path)
    assert frame["a"].tolist() == [LONG, LONG + 2]
    assert frame["b"].tolist() == [float(wide), float(wide)]
    assert frame["c"].tolist()[0] == str(2**63 + 1)
    assert frame["d"].tolist() == ["03/04/2020", "05/04/2020"]
    assert frame["e"].tolist() == [1.5, 2]


@pytest.mark.parametrize("kind", ["feather", "parquet"])
def test_decimals_of_many_digits_keep_them(kind, tmp_path):
    whole = pa.array([Decimal(10**30 + 1), Decimal(3), None], pa.decimal128(31, 0))
    path = tmp_path / f"rows.{kind}"
    table = pa.table({"whole": whole, "x": [1, 2, 3]})
    write = pa.feather.write_feather if kind == "feather" else pa.parquet.write_table
    write(table, path)
    found = read_table(path)["whole"]
    assert found.dropna().tolist() == [str(10**30 + 1), "3"]
    assert found.isna().tolist() == [False, False, True]


def test_long_numbers_keep_their_digits_in_arrow_files(tmp_path):
    decimals = pa.decimal128(38, 0)
    table = pa.table(
        {
            "a": pa.array([LONG, None]),
            "b": pa.array([Decimal(LONG), Decimal(LONG + 2)], type=decimals),
            "c": pa.array([Decimal(10**22 + 1), None], type=decimals),
            "d": pa.array([Decimal("1.50"), None], type=pa.decimal128(9, 2)),
            "e": pa.array([1, None]),
            "f": pa.array([Decimal(2**53 + 1), Decimal(5)], type=decimals),
        }
    )
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather")
    frame = read_table(tmp_path / "rows.feather")
    assert int(frame["a"][0]) == LONG
    assert frame["a"].isna().tolist() == [False, True]
    assert frame["b"].dtype == np.int64
    assert frame["b"].tolist() == [LONG, LONG + 2]
    assert frame["c"][0] == str(10**22 + 1)
    assert frame["d"].dtype == np.float64
    assert frame["e"].isna().tolist() == [False, True]
    assert frame["d"][0] == 1.5
    assert frame["f"].tolist() == [2**53 + 1, 5]


def bad_files(folder: Path) -> dict[str, tuple[bytes | None, str]]:
    return {
        "absent.csv": (None, "got nothing at"),
        "empty.csv": (b"", "names of its columns in its first line"),
        "header.csv": (b"a,b\n", "should have rows"),
        "blank.csv": (b"\n\r\n", "names of its columns in its first line"),
        "wide.csv": ("a,b\n1,2\n".encode("utf-16"), "UTF-8 text .* such as latin-1 or utf-16"),
        "header-latin.csv": ("a,caf\xe9\n1,2\n".encode("latin-1"), "UTF-8 text"),
        "latin.csv": ("a,b\n1,caf\xe9\n".encode("latin-1"), "UTF-8"),
        "noise.parquet": (b"PAR1" + bytes(200), "should be readable as parquet"),
        "noise.arrow": (b"ARROW1" + bytes(200), "should be readable as arrow"),
        "noise.jsonl": (b'{"a": 1\n{{', "should be readable as json"),
        "noise.duckdb": (b"no database", "should be readable as database"),
        "other.db": (
            b"SQLite format 3\x00" + bytes(100),
            "should be readable as database.* sqlite://",
        ),
        "a.sav": (b"$FL2@(#) SPSS DATA FILE" + bytes(100), "export the table to a CSV or Parquet"),
        "a.zip": (b"PK\x03\x04" + bytes(100), "export the table to a CSV or Parquet file"),
        "a\x00b.csv": (None, "got nothing at"),
    }


@pytest.mark.parametrize("name", bad_files(Path()))
def test_files_that_are_no_tables(name, tmp_path):
    content, message = bad_files(tmp_path)[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    query = "t" if name.endswith("db") else None
    with pytest.raises(TableError, match=message) as caught:
        read_table(tmp_path / name, query=query)
    assert "\n" not in str(caught.value)


# Spreadsheets, with the library that reads them and without.


def test_without_the_library_the_message_names_it(tmp_path, monkeypatch):
    path = tmp_path / "rows.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    result = run(f"check {path} -t mail -y visit")
    assert result.exit_code == 2
    assert "openpyxl should be installed" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_first_sheet_is_read(tmp_path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    path = tmp_path / "rows.xlsx"
    frame = pd.DataFrame(
        {
            "age": [30, 41],
            "spent": [0.5, None],
            "town": ["Oslo", None],
            "member": [True, False],
            "joined": [pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-01 10:00")],
        }
    )
    frame.to_excel(path, index=False)
    found = read_table(path)
    pd.testing.assert_frame_equal(found.where(found.notna(), None), frame, check_dtype=False)
    chosen = read_table(path, columns=["town", "age"])
    assert list(chosen) == ["town", "age"]
    frame.rename(columns={"age": " age", "town": "town "}).to_excel(path, index=False)
    assert list(read_table(path)) == list(frame)  # as of CSV files


# CSV files of many forms; and those that would lose lines or names are refused in one line.


def kinds_of(tmp_path, *texts):
    """The columns of CSV files that are read together."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.csv").write_bytes(text.encode())
    return read_table(folder).to_dict("list")


ROW = "a,b,c\n" + "1,2,3\n" * 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Lines lost in silence, or a table of one column, if the form is guessed.
        ("id,v\na,5\n#2\nb,6\n", "Line: 3: Expected Number of Columns: 2 Found: 1"),
        (ROW + "#total\n", "Line: 32: Expected Number of Columns: 3 Found: 1"),
        ("some title\nid,v\n1,2\n3,4\n", "Line: 2: Expected Number of Columns: 1 Found: 2"),
        ("some title\nid;v\n1;2\n3;4\n", "Line: 2: Expected Number of Columns: 1 Found: 2"),
        ("a,b\n" + "x,1,2\n" * 50, "Line: 2: Expected .* 2 Found: 3.*row.names = FALSE"),
        ("a,b,c\n1,2\n1,2\n" + "1,2,3\n" * 50, "Line: 2: Expected Number of Columns: 3 Found: 2"),
        ("a,b\n1,2\n3\n4,5\n", "Line: 3: Expected Number of Columns: 2 Found: 1"),
        (ROW + "4,5", "Line: 32: Expected Number of Columns: 3 Found: 2"),
        ("id\na,5\nb,6\n", "Line: 2: Expected Number of Columns: 1 Found: 2"),
        ("a,a,b\n1,2,3\n", "different names, ignoring case, got 'a', 'a'. Rename"),
        ("a,A,b\n1,2,3\n", "different names, ignoring case, got 'a', 'A'. Rename"),
        (",a\n0,1\n", "got a blank one.*index=False"),
        ('a,b\n1,"x\n2,3\n', "Line: 2: Value with unterminated quote"),
        ("a,b\r\n1,2\n3,4\r\n", "invalid state.* the same line end"),
    ],
)
def test_csv_files_that_would_lose_lines_or_names(text, message, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert "UTF-8" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_ragged_line_is_told_by_file_and_number_and_other_bytes_too(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,b\n" + "1,2\n" * 30_000 + "1\n" + "1,2\n" * 9)
    with pytest.raises(TableError, match=r"^b\.csv should .* Line: 30002: .* 2 Found: 1"):
        read_table(tmp_path)
    (tmp_path / "b.csv").write_bytes("a,b\n1,x\n1,caf\xe9\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"^b\.csv should be UTF-8 text"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'a;b\n"x;y";1,5\n', "a|b\nx;y|1,5\n", "a\tb\nx;y\t1,5\n", '\ufeffa;b\n"x;y";1,5\n',
        '\r\n\r\n a ,b\r\nx;y,"1,5"\r\n', 'a,b\rx;y,"1,5"\r',
    ],
)  # fmt: skip
def test_forms_of_csv_files(text, tmp_path):
    with pytest.warns(UserWarning, match="'b' of files is read as numbers with decimal commas"):
        assert kinds_of(tmp_path, text) == {"a": ["x;y"], "b": [1.5]}


# Texts of a column, what is read, and what is said.
WRITTEN = [
    (["1,5", "2", "1.234,25", "-3,75", "1,234"], [1.5, 2, 1234.25, -3.75, 1.234], "decimal commas"),
    (["€ 1,50", "2,00 €"], [1.5, 2.0], "decimal commas"),
    (["$ 1,234.00", "$5", "-$1,000", "12.5"], [1234.0, 5.0, -1000.0, 12.5], "between thousands"),
    (["1,234,567", "1,234"], [1234567.0, 1234.0], "between thousands"),
    (["31/01/2024", "1/2/2024"], ["2024-01-31", "2024-02-01"], "the day first"),
    (["01.02.2024", "28.02.2024"], ["2024-02-01", "2024-02-28"], "the day first"),
    (["1/31/2024", "1/2/2024"], ["2024-01-31", "2024-01-02"], "the month first"),
    (["12%", "12.5 %", "7"], [12.0, 12.5, 7.0], "a currency or %"),
    (["31/01/24", "1/2/99"], ["2024-01-31", "1999-02-01"], "the day first"),
    (["1/31/24", "1/2/2024"], ["2024-01-31", "2024-01-02"], "the month first"),
    (["1,234", "5"], ["1,234", "5"], "two things"),
    (["03-04-2020", "05-06-2020"], ["03-04-2020", "05-06-2020"], "two things"),
    (["1,234", "2,345"], ["1,234", "2,345"], "is read as texts: .* two things"),
    (["1/2/2024", "3/4/2024"], ["1/2/2024", "3/4/2024"], "two things"),
    (["1,5", "1.5"], ["1,5", "1.5"], "two things"),
    (["31/1/2024", "1/31/2024"], ["31/1/2024", "1/31/2024"], "two things"),
]


@pytest.mark.parametrize(("texts", "expected", "words"), WRITTEN)
def test_numbers_and_dates_as_people_write_them(texts, expected, words, tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame({"a": [*texts, None], "b": "x"}).to_csv(path, index=False)
    with pytest.warns(UserWarning, match=words):
        found = read_table(path)["a"]
    if str(found.dtype).startswith("datetime"):
        found = found.dt.strftime("%Y-%m-%d")
    assert found.tolist()[:-1] == expected
    assert pd.isna(found.iloc[-1])


def many_numbers(n=200):
    return [f"{k % 97 / 4:.2f}" for k in range(n)]


@pytest.mark.gate
@pytest.mark.parametrize("blank", ["?", "-", "unknown", "#N/A", "n/a", "None", "Missing", r"\N"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "xlsx"])
def test_a_few_texts_that_stand_for_no_number_are_missing_and_told(blank, suffix, tmp_path):
    if (blank, suffix) in (("#N/A", "xlsx"), (r"\N", "csv")):
        pytest.skip("an error of a spreadsheet is missing already")
    texts = many_numbers()
    texts[7], texts[50] = blank, blank
    path = write(pd.DataFrame({"a": texts, "b": 1}), tmp_path / f"rows.{suffix}")
    with pytest.warns(UserWarning, match=re.escape(f"as missing values: {blank!r} (2)")):
        found = read_table(path)["a"]
    assert found.dtype == np.float64
    assert np.flatnonzero(found.isna()).tolist() == [7, 50]
    assert found[1] == 0.25
    # A category may have such a level.
    path = write(pd.DataFrame({"a": ["x", "y", blank] * 40, "b": 1}), tmp_path / f"rows.{suffix}")
    assert read_table(path)["a"].iloc[2] == blank


def write(frame, path):
    form = {".csv": "to_csv", ".parquet": "to_parquet", ".xlsx": "to_excel"}.get(path.suffix)
    if form is None:
        frame.to_json(path, orient="records", lines=True)
    elif form == "to_parquet":
        frame.to_parquet(path)
    else:
        getattr(frame, form)(path, index=False)
    return path


def test_texts_among_many_numbers_are_named(tmp_path):
    texts = many_numbers()
    texts[3], texts[4] = "see note", "12 kg"
    path = write(pd.DataFrame({"a": texts, "b": 1}), tmp_path / "rows.csv")
    with pytest.warns(UserWarning, match=r"most are numbers .* not '12 kg' \(1\), 'see note'"):
        assert read_table(path)["a"].iloc[3] == "see note"


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "xlsx", "feather"])
def test_texts_that_are_numbers_or_dates_are_read_as_such_in_every_format(suffix, tmp_path):
    days = pd.date_range("2020-01-01", periods=200).strftime("%d/%m/%Y")
    codes = [str(k % 12) for k in range(200)]
    frame = pd.DataFrame({"n": many_numbers(), "k": map(str, range(200)), "day": days})
    frame = frame.assign(code=codes, zip=[f"{k % 50:05d}" for k in range(200)], town="Oslo")
    path = tmp_path / f"rows.{suffix}"
    frame.to_feather(path) if suffix == "feather" else write(frame, path)
    with (
        pytest.warns(UserWarning, match="'n', 'k' of .* are read as numbers or dates, which its"),
        pytest.warns(UserWarning, match="'day' of .* is read as dates with the day first"),
    ):
        found = read_table(path)
    assert found["n"].tolist() == [float(text) for text in frame["n"]]
    assert found["k"].tolist() == list(range(200))
    assert found["day"].iloc[31] == pd.Timestamp("2020-02-01")
    for name in ("code", "zip", "town"):  # few different digits, or with zeros, may be a code
        assert found[name].tolist() == frame[name].tolist()


def test_quotes_within_quotes_and_lines_within_fields(tmp_path):
    doubled = 'a,b\r\n"x ""y"", z","1\n2"\r\n'
    escaped = 'a,b\n"x \\"y\\", z","1\n2"\n'
    path = 'a,b\n"C:\\",3\n'
    columns = kinds_of(tmp_path, doubled, escaped, path)
    assert columns == {"a": ['x "y", z', 'x "y", z', "C:\\"], "b": ["1\n2", "1\n2", "3"]}


def test_cells_of_a_spreadsheet_stay_what_they_are(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    lines = [("code", "word", "n", "x"), ("00123", "NA", 1, 0.5), ("00124", "b", 2, None)]
    for line in lines:
        book.active.append(line)
    book.save(path := tmp_path / "book.xlsx")
    frame = read_table(path)
    assert frame["code"].tolist() == ["00123", "00124"]
    assert frame["word"].tolist() == ["NA", "b"]
    assert frame["n"].tolist() == [1, 2]
    assert frame["x"].dtype == np.float64
    assert frame["x"].isna().tolist() == [False, True]
    book.create_sheet("more").append((1, 2))
    book.save(path)
    with pytest.warns(UserWarning, match="book.xlsx has 2 sheets, of which the first, 'Sheet'"):
        read_table(path)


TEXT = 'stadt;preis\r\nKöln;1,250\r\n"Nîmes;\nœ";2,5\r\n'
GERMAN_ROWS = {"stadt": ["Köln", "Nîmes;\nœ"], "preis": [1.25, 2.5]}


@pytest.mark.parametrize("encoding", ["cp1252", "UTF-16", "utf_8", "utf-8-sig", "iso8859-15"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
def test_files_of_other_encodings_are_read_as_they_are_meant(encoding, suffix, tmp_path):
    path, content = tmp_path / f"rows{suffix}", TEXT.encode(encoding)
    if suffix.endswith(".gz"):
        path.write_bytes(gzip.compress(content))
    elif suffix.endswith(".zst"):
        with pa.output_stream(path, compression="zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    frame = read_table(path, encoding=encoding, decimal=",")
    assert frame.to_dict("list") == GERMAN_ROWS


THOUSANDS = ("332", "1.696", "908", "12.216")


def read_points(tmp_path, other, **options):
    """What a column of 1.696 is read as beside another column, and the notes."""
    path = tmp_path / "rows.csv"
    rows = [f"{own};{more}" for own, more in zip(THOUSANDS, other, strict=True)]
    path.write_text("history;b\n" + "\n".join(rows) + "\n")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = read_table(path, **options)["history"].tolist()
    return found, [str(w.message) for w in told if "history" in str(w.message)]


@pytest.mark.parametrize("columns", [None, ["history"]])
def test_points_are_between_thousands_where_commas_are_before_decimals(columns, tmp_path):
    found, (note,) = read_points(tmp_path, ["0,0", "92,62", "1,5", "7"], columns=columns)
    assert found == [332, 1696, 908, 12216]
    assert note.startswith("'history' of rows.csv is read as numbers with points between thousands")
    assert "name the decimal sign" in note


@pytest.mark.parametrize("other", [("x", "y", "z", "x"), ("0.0", "92.62", "1.5", "7")])
def test_points_that_nobody_can_tell_are_told(other, tmp_path):
    found, (note,) = read_points(tmp_path, other)
    assert found == [332, 1.696, 908, 12.216]
    assert note.startswith("'history' of rows.csv is read as numbers with decimal points")
    assert "name the decimal sign" in note
    assert read_points(tmp_path, other, decimal=".") == ([332, 1.696, 908, 12.216], [])
    assert read_points(tmp_path, other, decimal=",") == ([332, 1696, 908, 12216], [])


@pytest.mark.filterwarnings("ignore:.*read as")
@pytest.mark.parametrize(
    ("lines", "option", "decimal", "guessed"),
    [
        ("1.696;1,5", None, ",", ("a",)),
        ("1.696;x", None, ".", ("a",)),
        ("1.696;x", ",", ",", ()),
        ("1.5;1,5", None, None, ()),
        ("1.5;x", None, ".", ()),
        ("7;x", None, None, ()),
    ],
)
def test_a_table_tells_by_which_sign_its_texts_were_read(lines, option, decimal, guessed, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + f"{lines}\n" * 50)
    found = read_table(path, decimal=option)
    assert (found.attrs[DECIMAL], tuple(found.attrs[GUESSED])) == (decimal, guessed)
    for other in (".", ","):
        check_decimal(found, other, ["b"])
        if guessed and other != (decimal or "."):
            with pytest.raises(InputError) as caught:
                check_decimal(found, other, ["a", "b"])
            assert caught.value.parameter == "decimal"
        else:
            check_decimal(found, other, ["a", "b"])
    check_decimal(pd.DataFrame({"a": [1.5]}), ",", ["a"])


def test_stata_files(tmp_path):
    rows = pd.DataFrame({
        "age": [30.0, np.nan, 41.5], "town": ["Oslo", "Rome", "Rome"],
        "day": pd.to_datetime(["2024-01-31", "2024-02-01", None]),
    })  # fmt: skip
    rows.to_stata(tmp_path / "rows.dta", write_index=False, convert_dates={"day": "td"})
    found = read_table(tmp_path / "rows.dta")
    assert found["age"].to_numpy(float, na_value=np.nan).tolist()[::2] == [30.0, 41.5]
    assert found["age"].isna().tolist() == [False, True, False]
    assert found["town"].tolist() == ["Oslo", "Rome", "Rome"]
    assert found["day"].dt.strftime("%Y-%m-%d").tolist()[:2] == ["2024-01-31", "2024-02-01"]
