"""Spreadsheets, with the library that reads them and without."""

import sys
import zipfile

import pandas as pd
import pytest
from tests.cli.commands import run

from auucmax.data.reading import read_table


def test_without_the_library_the_message_names_it(tmp_path, monkeypatch):
    path = tmp_path / "rows.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    result = run(f"check {path} -t mail -y visit")
    assert result.exit_code == 2
    assert "rows.xlsx should be a file that can be read here" in result.stderr
    assert "openpyxl" in result.stderr
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
    pd.testing.assert_frame_equal(read_table(path), frame, check_dtype=False)
    chosen = read_table(path, columns=["town", "age"])
    assert list(chosen) == ["town", "age"]


def test_a_damaged_spreadsheet_is_told_in_one_line(tmp_path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    path = tmp_path / "rows.xlsx"
    pd.DataFrame({"age": [30, 41]}).to_excel(path, index=False)
    whole = path.read_bytes()
    for content in (whole[:100], whole[:-30], b"PK\x03\x04" + bytes(99), b"age\n30\n"):
        path.write_bytes(content)
        result = run(f"check {path} -t mail -y visit")
        assert result.exit_code == 2
        assert "rows.xlsx should be an Excel file" in result.stderr
        assert result.stderr.count("\n") == 1
