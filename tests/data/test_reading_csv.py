"""CSV files of many forms; and those that would lose lines or names are refused in one line."""

import pyarrow as pa
import pytest

from auucmax.data.reading import TableError, read_table, scan_csv


def kinds_of(tmp_path, *texts):
    """The columns of CSV files that are read together."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.csv").write_bytes(text.encode())
    return read_table(folder).to_dict("list")


def test_nothing_of_the_form_is_left_to_guess(tmp_path):
    path = tmp_path / "it's.csv"
    path.write_text("\n\na;b c\n1;2\n")
    query = scan_csv(str(path))
    for part in (
        "it''s.csv'", "auto_detect = false", "skip = 2", "delim = ';'", "escape = '\"'",
        "columns = {'a': 'VARCHAR', 'b c': 'VARCHAR'}",
    ):  # fmt: skip
        assert part in query


def test_a_header_is_a_header_even_if_all_columns_are_texts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("town,colour\nOslo,red\nRome,blue\n")
    assert list(read_table(path).columns) == ["town", "colour"]


def test_no_line_of_a_csv_file_is_a_comment(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("#tag,v\n#a,1\nb # c,2\n#d,3\n")
    assert read_table(path)["#tag"].tolist() == ["#a", "b # c", "#d"]


ROW = "a,b,c\n" + "1,2,3\n" * 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Lines lost in silence, or a table of one column, if the form is guessed.
        ("id,v\na,5\n#2\nb,6\n", r"names in its header \(2\), got 1 in line 3"),
        (ROW + "#total\n", "got 1 in line 32"),
        ("some title\nid,v\n1,2\n3,4\n", r"header \(1\), got 2 in line 2"),
        ("some title\nid;v\n1;2\n3;4\n", "got 'some title' and ';' within"),
        ("a,b\n" + "x,1,2\n" * 50, r"header \(2\), got 3 in line 2.*row.names = FALSE"),
        ("a,b,c\n1,2\n1,2\n" + "1,2,3\n" * 50, r"\(3\), got 2 in line 2"),
        ("a,b\n1,2\n3\n4,5\n", r"\(2\), got 1 in line 3"),
        (ROW + "4,5", "got 2 in line 32"),
        ("a b c\n1 2 3\n4 5 6\n", "got 'a b c' and ' ' within"),
        ('"a,b"\n1\n2\n', "got 'a,b' and ',' within"),
        ("a,a,b\n1,2,3\n", "different names, capitals aside, got 'a', 'a'. Rename"),
        ("a,A,b\n1,2,3\n", "different names, capitals aside, got 'a', 'A'. Rename"),
        (",a\n0,1\n", "got none for column 1.*index=False"),
        ('a,b\n1,"x\n2,3\n', "close every quoted field, got one .* line 2"),
        ("a,b\r\n1,2\n3,4\r\n", "lines that all end in the same way"),
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
    with pytest.raises(TableError, match=r"^b\.csv should have as many .* line 30002"):
        read_table(tmp_path)
    (tmp_path / "b.csv").write_bytes("a,b\n1,x\n1,caf\xe9\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"^b\.csv should be UTF-8 text, got .* line 3"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'a;b\n"x;y";1,5\n', "a|b\nx;y|1,5\n", "a\tb\nx;y\t1,5\n", '\ufeffa;b\n"x;y";1,5\n',
        '\r\n\r\n a ,b\r\nx;y,"1,5"\r\n', 'a,b\rx;y,"1,5"\r',
    ],
)  # fmt: skip
def test_forms_of_csv_files(text, tmp_path):
    assert kinds_of(tmp_path, text) == {"a": ["x;y"], "b": ["1,5"]}


def test_quotes_within_quotes_and_lines_within_fields(tmp_path):
    doubled = 'a,b\r\n"x ""y"", z","1\n2"\r\n'
    escaped = 'a,b\n"x \\"y\\", z","1\n2"\n'
    path = 'a,b\n"C:\\",3\n'
    columns = kinds_of(tmp_path, doubled, escaped, path)
    assert columns == {"a": ['x "y", z', 'x "y", z', "C:\\"], "b": ["1\n2", "1\n2", "3"]}


def test_a_packed_csv_file_of_zstandard(tmp_path):
    with pa.output_stream(tmp_path / "rows.csv.zst", compression="zstd") as stream:
        stream.write(b"a;b\nx;1\ny;2\n")
    columns = read_table(tmp_path / "rows.csv.zst").to_dict("list")
    assert columns == {"a": ["x", "y"], "b": [1, 2]}


def test_the_names_of_columns_may_be_any(tmp_path):
    text = 'name,value,cells,rows,a b,"x\'""y"\n1,2,x,4,5,2020-01-01\n'
    columns = kinds_of(tmp_path, text)
    assert list(columns.values())[:5] == [[1], [2], ["x"], [4], [5]]
    assert list(columns) == ["name", "value", "cells", "rows", "a b", "x'\"y"]
