"""Decimal signs and encodings of CSV files that do not show them."""

import gzip
import warnings
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from auucmax.data.pieces import PiecedTable, open_table
from auucmax.data.reading import read_table
from auucmax.data.table_errors import TableError
from auucmax.data.text_files import TextForm, utf8_files

TEXT = 'stadt;preis\r\nKöln;1,250\r\n"Nîmes;\nœ";2,5\r\n'
ROWS = {"stadt": ["Köln", "Nîmes;\nœ"], "preis": [1.25, 2.5]}


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
    assert frame.to_dict("list") == ROWS


def test_files_of_a_folder_may_have_one_name(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "rows.csv").write_bytes(f"t\né{place}\n".encode("latin-1"))
    assert read_table(tmp_path, encoding="latin-1")["t"].tolist() == ["éa", "éb"]


@pytest.mark.parametrize("decimal", [".", ",", None])
def test_pieces_are_the_frame_and_leave_nothing_behind(decimal, tmp_path):
    lines = "".join(f"é{k % 3};{k % 7 + 1},{k % 9}00\n" for k in range(5_000))
    path = tmp_path / "rows.csv"
    path.write_bytes(("ort;preis\n" + lines).encode("latin-1"))
    form = {"encoding": "latin-1", "decimal": decimal}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = read_table(path, **form)
        table = open_table(path, memory=1, **form)
        assert isinstance(open_table(path, **form), pd.DataFrame)
    assert ("can mean two things" in str([w.message for w in caught])) is (decimal is None)
    assert isinstance(table, PiecedTable)
    pd.testing.assert_frame_equal(pd.concat(table.pieces()), whole, check_index_type=False)
    pd.testing.assert_frame_equal(pd.concat(table.pieces()), whole, check_index_type=False)
    assert (whole["preis"].iloc[0], whole["ort"].iloc[0]) == (
        {".": 1000.0, ",": 1.0, None: "1,000"}[decimal],
        "é0",
    )
    copy = Path(table.files[0])
    assert copy.exists()
    assert copy.name == "rows.csv"
    del table
    assert not copy.exists()


def test_copies_go_with_their_stack(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("é\n1\n".encode("latin-1"))
    with ExitStack() as stack:
        (copy,) = utf8_files([str(path)], "latin-1", stack)
        assert Path(copy).read_text(encoding="utf-8") == "é\n1\n"
    assert not Path(copy).exists()
    assert path.read_bytes() == "é\n1\n".encode("latin-1")


def test_a_column_that_cannot_be_decided_names_the_option(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1,234;1/2/2024\n2,345;3/4/2024\n")
    with pytest.warns(UserWarning, match="is read as texts") as told:
        frame = read_table(path)
    assert frame.to_dict("list") == {"a": ["1,234", "2,345"], "b": ["1/2/2024", "3/4/2024"]}
    numbers, dates = sorted(str(w.message) for w in told)
    assert numbers.startswith("'a' of rows.csv is read as texts: numbers as 1,234 can mean two")
    assert "decimal=',' or decimal='.'" in numbers
    assert dates.startswith("'b' of rows.csv is read as texts: dates as 1/2/2024")


@pytest.mark.parametrize(("decimal", "texts"), [(",", ["1.5", "2.5"]), (".", ["1,5", "2,5"])])
def test_numbers_of_another_decimal_sign_are_told(decimal, texts, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "".join(f"{text};x\n" for text in texts))
    with pytest.warns(UserWarning, match="'a' of rows.csv is read as texts: not all are numbers"):
        assert read_table(path, decimal=decimal)["a"].tolist() == texts


def test_what_cannot_be_is_one_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("a\né\n".encode("latin-1"))
    (tmp_path / "wide.csv").write_bytes("a\né\n".encode("utf-16"))
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "rows.parquet")
    cases = [
        ("rows.csv", {"encoding": "klingon"}, "encoding should be the name of a text encoding"),
        ("rows.csv", {"encoding": "base64"}, "such as latin-1, cp1252 or utf-16, got 'base64'"),
        ("rows.csv", {"encoding": "lat\0in"}, "Check the name"),
        ("rows.csv", {"decimal": ";"}, r"decimal should be '\.' or ',', got ';'"),
        ("rows.csv", {"decimal": ""}, "decimal should be"),
        ("rows.csv", {"encoding": "ascii"}, "rows.csv should be text in ascii, got other bytes"),
        ("rows.csv", {}, "Save the file as UTF-8, or say what it is, as encoding='latin-1'"),
        ("wide.csv", {}, "as encoding='utf-16'"),
        ("rows.parquet", {"decimal": ","}, "decimal should come with a CSV file, got it with rows"),
        ("rows.parquet", {"encoding": "latin-1"}, "encoding should come with a CSV file"),
    ]
    for name, form, words in cases:
        for read in (read_table, open_table):
            with pytest.raises(TableError, match=words) as told:
                read(tmp_path / name, **form)
            assert "\n" not in str(told.value)
    with pytest.raises(TableError, match="decimal should come with a CSV file"):
        read_table("postgresql://localhost/x", query="t", decimal=",")


def test_utf_8_needs_no_copy():
    assert TextForm.checked(None, "UTF8") == TextForm()
