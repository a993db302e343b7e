"""What packages cost is what their files weigh."""

import argparse
import json

import pytest
from benchmarks import __main__ as command
from benchmarks import install


@pytest.fixture
def site(tmp_path):
    """Two packages, and the tool that installed them."""
    sizes = {"large_one": 2_500_000, "Small.One": 40_000, "pip": 9_000_000}
    for name, size in sizes.items():
        (tmp_path / f"{name}.py").write_bytes(b"#" * size)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (about / "RECORD").write_text(f"{name}.py,,\n{name}.pyc,,\n")  # no bytecode was made
    return tmp_path


def test_packages_are_weighed_without_the_tool_that_installed_them(site):
    large, small = install.packages(site)
    assert large == {"package": "large-one", "version": "1", "mb": 2.5}
    assert small == {"package": "small-one", "version": "1", "mb": 0.0}


def test_an_extra_counts_what_it_adds(site, monkeypatch):
    installed = []
    monkeypatch.setattr(install, "build_wheel", lambda folder: folder / "a.whl")
    monkeypatch.setattr(install, "make_environment", lambda folder: folder)
    monkeypatch.setattr(install, "install", lambda python, what: installed.append(what))
    monkeypatch.setattr(install, "site_of", lambda python: site)
    large, small = install.packages(site)
    monkeypatch.setattr(
        install, "packages", lambda site: [large] if len(installed) == 1 else [large, small]
    )
    records = install.run(argparse.Namespace(quick=False))
    assert [what.partition("whl")[2] for what in installed] == [
        "", *(f"[{extra}]" for extra in install.EXTRAS)
    ]  # fmt: skip
    assert [(r["case"], r["package"]) for r in records] == [
        ("base", "large-one"), ("plot", "small-one")
    ]  # fmt: skip
    assert [line.split() for line in install.table_of(records).splitlines()[1:]] == [
        ["large-one", "1", "2.5"],
        ["base,", "1", "packages", "2.5"],
        ["plot:", "small-one", "0.0"],
    ]


def test_the_kept_base_is_as_small_as_it_is_to_be():
    records = json.loads((command.RESULTS / "install.json").read_text())
    base = {one["package"]: one["mb"] for one in records if one["case"] == "base"}
    assert "auucmax" in base
    assert sum(base.values()) < install.MOST_MB
    text = command.INSTALL.read_text()
    assert command.with_figures(text, "install", install.summary_table(records)) == text


def test_all_benchmarks_have_their_turn(monkeypatch, capsys):
    ran = []

    def measure(arguments):
        ran.append((arguments.name, arguments.quick))
        if arguments.name == "fit":
            raise RuntimeError("no data")

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr("sys.argv", ["benchmarks", "all", "--quick"])
    assert command.main() == 1
    assert ran == [(name, True) for name in command.NAMES]
    said = capsys.readouterr().out
    assert "did not run: RuntimeError: no data" in said
    n = len(ran)
    assert said.endswith(f"{n - 1} of {n} benchmarks ran\n")
    monkeypatch.setattr("sys.argv", ["benchmarks", "all", "--keep"])
    with pytest.raises(SystemExit):
        command.main()
    assert "all should come without --keep" in capsys.readouterr().err
