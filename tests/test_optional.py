"""Libraries that may be absent: an error that says what to install, and nothing is hidden."""

import sys

import pytest

from auucmax import TwoModels, UpliftCurveDisplay, compare, make_trial
from auucmax._optional import import_optional, lazy_names
from auucmax.baselines import UpliftLambdaMART
from auucmax.campaign import plan_trial
from auucmax.data import read_table
from auucmax.rows import stream_table


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


def draw_a_curve(folder):
    trial = make_trial(200, random_state=0)
    UpliftCurveDisplay.from_predictions(trial.y, trial.X["x0"], treatment=trial.treatment)


def draw_a_plan(folder):
    plan_trial(base_rate=0.1, effect=0.03, gain=0.006).draw()


def draw_a_comparison(folder):
    compare([TwoModels()], make_trial(400, random_state=0), splits=1).plot()


def fit_trees_of_lightgbm(folder):
    trial = make_trial(200, random_state=0)
    UpliftLambdaMART(n_trees=1, early_stopping=None).fit(
        trial.X, trial.y, treatment=trial.treatment
    )


def read_arrow(folder):
    (folder / "rows.arrow").write_bytes(b"ARROW1")
    read_table(folder / "rows.arrow")


def read_zstandard(folder):
    (folder / "rows.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    read_table(folder / "rows.csv.zst")


def read_batches(folder):
    stream_table(folder / "rows.parquet", treatment="t", outcome="y")


DOORS = {
    draw_a_curve: ("matplotlib", "plot"),
    draw_a_plan: ("matplotlib", "plot"),
    draw_a_comparison: ("matplotlib", "plot"),
    fit_trees_of_lightgbm: ("lightgbm", "lightgbm"),
    read_arrow: ("pyarrow", "arrow"),
    read_zstandard: ("pyarrow", "arrow"),
    read_batches: ("pyarrow", "arrow"),
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_what_needs_a_library_says_which(door, tmp_path, monkeypatch):
    library, extra = DOORS[door]
    for name in [library, *(m for m in sys.modules if m.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    told = f"{library} should be installed to use this, got no such module. Run: pip install"
    with pytest.raises(ImportError) as caught:
        door(tmp_path)
    assert str(caught.value) == f'{told} "auucmax[{extra}]"'
