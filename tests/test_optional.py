"""Libraries that may be absent: an error that says what to install, and nothing is hidden."""

import sys

import pytest

from auucmax._optional import import_optional, lazy_names


def test_what_is_absent_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r'Run: pip install "auucmax\[deep\]"'):
        import_optional("no_such_library.inner", extra="deep")


def test_a_library_that_lacks_something_itself_says_so(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library") as caught:
        import_optional("half_there", extra="deep")
    assert "auucmax[deep]" not in str(caught.value)


def test_names_are_imported_at_first_use_and_kept(tmp_path, monkeypatch):
    package = tmp_path / "late_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "home.py").write_text("value = object()")
    monkeypatch.syspath_prepend(tmp_path)
    import late_package

    get = lazy_names("late_package", {"value": "home"})
    assert "late_package.home" not in sys.modules
    assert get("value") is late_package.value
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        get("other")
