"""A release is made of a clean tree whose version and changes agree."""

import re
import subprocess

import pytest
import release

import auucmax


def test_this_tree_has_the_version_of_its_last_release():
    assert release.version_of(release.ROOT) == auucmax.__version__
    assert [line for line in release.problems(release.ROOT) if "CITATION" in line] == []
    headings = re.findall("^## (.*)$", (release.ROOT / "CHANGES.md").read_text(), re.MULTILINE)
    # Between releases the first heading collects changes; release.py refuses to release it.
    released = [heading for heading in headings if not heading.endswith(" (unreleased)")]
    assert re.fullmatch(rf"{re.escape(auucmax.__version__)} \([-\d]{{10}}\)", released[0])
    assert len(headings) - len(released) <= 1


@pytest.fixture
def tree(tmp_path):
    """A small repository that could be released."""
    place = tmp_path / "src" / "auucmax"
    place.mkdir(parents=True)
    (place / "_version.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGES.md").write_text("# Changes\n\n## 1.2.3 (2026-11-17)\n\n- A line.\n")
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.3\n")
    for line in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m one"):
        subprocess.run(["git", *line.split()], cwd=tmp_path, check=True)
    return tmp_path


def test_nothing_keeps_a_clean_tree_from_being_released(tree):
    assert release.problems(tree) == []


@pytest.mark.parametrize(
    ("version", "heading", "told"),
    [
        ("1.2.4", "1.2.3 (2026-11-17)", "should be 1.2.4 with a date, got 1.2.3 (2026-11-17)"),
        ("1.2.3", "1.2.3 (unreleased)", "got 1.2.3 (unreleased)"),
        ("1.2.3.dev0", "1.2.3.dev0 (2026-11-17)", "a version as 1.2.3, got 1.2.3.dev0"),
    ],
)
def test_what_does_not_agree_is_told(tree, version, heading, told):
    (tree / "src" / "auucmax" / "_version.py").write_text(f'__version__ = "{version}"\n')
    (tree / "CHANGES.md").write_text(f"# Changes\n\n## {heading}\n")
    (tree / "CITATION.cff").write_text(f"version: {version}\n")
    first, *_, last = release.problems(tree)
    assert told in first
    assert "should have no changes that are not committed" in last


def test_what_is_to_be_cited_is_the_version(tree):
    (tree / "CITATION.cff").write_text("version: 1.2.2\n")
    first, _ = release.problems(tree)
    assert first == "CITATION.cff should have version: 1.2.3, got ['1.2.2']. Mend it."


def test_a_version_is_tagged_once(tree):
    subprocess.run(["git", "tag", "v1.2.3"], cwd=tree, check=True)
    (line,) = release.problems(tree)
    assert line == "the tag v1.2.3 should not exist yet, got one. Raise the version."


def test_without_a_clean_tree_nothing_is_built(tree, monkeypatch, capsys):
    (tree / "more").write_text("")
    monkeypatch.setattr(release, "ROOT", tree)
    assert release.main(["--upload"]) == 1
    assert "Commit them." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        release.main(["--upload", "--dry-run"])


def test_a_release_is_tagged_and_only_uploaded_if_asked_to(tree, monkeypatch, capsys):
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setattr(release, "build", lambda folder: [folder / "a.whl"])
    assert release.main(["--dry-run"]) == 0
    assert release.git(tree, "tag", "--list") == []
    monkeypatch.setenv("GIT_COMMITTER_NAME", "a")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "a@b")
    assert release.main([]) == 0
    assert release.git(tree, "tag", "--list") == ["v1.2.3"]
    assert "git push origin v1.2.3" in capsys.readouterr().out
