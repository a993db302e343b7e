"""Messages of tables that cannot be read are one line, and name columns that look alike."""

import pytest

from auucmax.data.table_errors import TableError, one_line, unknown_columns_message


def test_whatever_a_parser_raises_is_one_line():
    with pytest.raises(TableError) as caught, one_line("a.csv", "a table", "Check it."):
        raise RuntimeError("\n  first line. \nsecond line")
    assert str(caught.value) == "a.csv should be a table, got: first line. Check it."
    with (
        pytest.raises(TableError, match=r"got: KeyError\. Check it\."),
        one_line("a", "b", "Check it."),
    ):
        raise KeyError
    own = TableError("said already")
    with pytest.raises(TableError) as caught, one_line("a.csv", "a table", "Check it."):
        raise own
    assert caught.value is own
    with pytest.raises(ImportError), one_line("a.csv", "a table", "Check it."):
        raise ImportError("duckdb")


def test_near_names():
    message = unknown_columns_message("rows.csv", ["Visit "], ["visit", "mail"])
    assert message.endswith("Did you mean 'visit'?")
    message = unknown_columns_message("rows.csv", ["x", "q"], ["visit", "mail"])
    assert "columns 'x', 'q'" in message
    assert message.endswith("Check the names of the columns.")
