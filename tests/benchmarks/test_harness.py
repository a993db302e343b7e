import json

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import certify, scale
from benchmarks.harness import Case, measure, run_cases, table_of
from benchmarks.metrics import LIBRARIES, REFERENCES, cases

FIELDS = {"benchmark", "case", "library", "rows", "features", "seconds", "peak_mb", "resident_mb"}


def case(library, rows=2000):
    function = f"benchmarks.metrics:{LIBRARIES[library]}"
    return Case("auuc", library, rows, 0, function, {"rows": rows, "kind": "auuc"})


@pytest.mark.gate
def test_records_have_the_fields_and_ratios_are_within_the_run():
    records = run_cases([case("np.argsort"), case("auucmax")], benchmark="metrics")
    for record in records:
        assert record.keys() == FIELDS
        assert record["seconds"] > 0
    records = [{**r, "seconds": s} for r, s in zip(records, (0.5, 0.25), strict=True)]
    ours = table_of(records, REFERENCES).splitlines()[-1].split()
    assert ours[-2:] == ["-", "0.50"]  # no peer was measured; half the time of the argsort


def test_a_case_that_cannot_run_says_why():
    broken = case("auucmax")._replace(function="benchmarks.metrics:nothing")
    (record,) = run_cases([broken], benchmark="metrics")
    assert record["seconds"] is None
    assert "nothing" in record["error"]


def test_every_library_of_ours_can_be_measured():
    for library in ("np.argsort", "auucmax", "auucmax with intervals"):
        assert measure(case(library))["peak_mb"] >= 0


def test_the_page_is_made_of_the_kept_results():
    assert command.page() == command.PAGE.read_text()


def test_the_guide_has_the_figures_of_the_kept_results():
    records = json.loads((command.RESULTS / "scale.json").read_text())
    text = command.GUIDE.read_text()
    assert command.with_figures(text, "scale", scale.guide(records)) == text


def test_a_case_can_be_measured_again(tmp_path, monkeypatch):
    for name in ("RESULTS", "PAGE"):
        monkeypatch.setattr(command, name, tmp_path / name)
    monkeypatch.setattr(command, "page", str)
    seconds = iter(range(1, 9))

    def measured(cases, *, benchmark):
        return [{**c._asdict(), "seconds": next(seconds), "peak_mb": 0.0} for c in cases]

    monkeypatch.setattr(command, "run_cases", measured)
    both = [case("np.argsort"), case("auucmax")._replace(case="other")]
    monkeypatch.setattr("benchmarks.metrics.cases", lambda quick: both)

    def kept(versions, *more):
        monkeypatch.setattr(command, "_versions", lambda: versions)
        monkeypatch.setattr("sys.argv", ["benchmarks", "metrics", "--keep", *more])
        command.main()
        found = json.loads((tmp_path / "RESULTS" / "metrics.json").read_text())
        assert [record["case"] for record in found] == ["auuc", "other"]
        return found, (tmp_path / "RESULTS" / "metrics.txt").read_text().split("\n\n")[0]

    first, text = kept("old 1")
    command_line, facts = text.splitlines()
    assert command_line.startswith("python -m benchmarks metrics --keep, 2")
    assert command_line.count(":") == 0
    assert facts.endswith(", old 1")
    found, text = kept("new 2", "--only", "other")
    assert found[0] == first[0]
    assert found[1]["seconds"] != first[1]["seconds"]
    assert [record["run"]["versions"] for record in found] == ["old 1", "new 2"]
    lines = text.splitlines()
    assert [line.split(": ")[-1] for line in lines[::2]] == ["auuc", "other"]
    assert lines[2].startswith("python -m benchmarks metrics --keep --only other, ")
    assert [line.split(", ")[-1] for line in lines[1::2]] == ["old 1", "new 2"]
    _, text = kept("new 3")
    assert "other" not in text  # nothing is left of the earlier runs
    assert "new 2" not in text


def test_a_case_may_be_the_first_that_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    assert command.kept_with("metrics", [{"case": "a"}]) == [{"case": "a"}]


@pytest.mark.parametrize("name", command.NAMES)
def test_kept_records_know_their_run_and_make_the_kept_table(name):
    records = json.loads((command.RESULTS / f"{name}.json").read_text())
    for record in records:
        assert record["run"].keys() == command.run_of([]).keys()
        assert record["run"]["command"].startswith(f"python -m benchmarks {name}")
    text = (command.RESULTS / f"{name}.txt").read_text()
    assert text.split("\n\n")[0].splitlines() == command.heads(records)


def test_sizes_and_libraries():
    assert {c.rows for c in cases()} == {100_000, 1_000_000, 5_000_000}
    assert {c.rows for c in cases(quick=True)} == {100_000}
    assert {c.library for c in cases()} == set(LIBRARIES)


@pytest.mark.gate
def test_certificates_can_be_measured():
    assert {c.rows for c in certify.cases()} == {100_000, 1_000_000, 5_000_000}
    for name in ("betting-fixed", "certify", "histogram", "progressive"):
        function = f"benchmarks.certify:{certify.LIBRARIES[name]}"
        assert measure(Case("held out", name, 2000, 0, function, {"rows": 2000}))["seconds"] > 0


@pytest.mark.gate
def test_fits_at_scale_can_be_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert {c.rows for c in scale.cases()} == {*scale.SIZES, scale.STREAM_ROWS, scale.WIDE_ROWS}
    found = {}
    for name in ("memory_auucmax", "stream_auucmax"):
        found[name] = getattr(scale, name)(5000)().coef_
    np.testing.assert_allclose(found["stream_auucmax"], found["memory_auucmax"], rtol=1e-6)
    inference, certificate = scale.stream_evaluation(5000)()
    assert inference.n_rows == certificate.n_rows == 5000
