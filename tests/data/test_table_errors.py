"""Messages of tables that cannot be read are one line."""

import pytest

from auucmax.data.tables import TableError, one_line


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
