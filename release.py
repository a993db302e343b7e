"""``python release.py``: check the tree, build wheel and archive, and tag the version.

The version is that of ``src/auucmax/_version.py``, which the first heading of ``CHANGES.md`` (with
a date) and ``CITATION.cff`` must name. ``--dry-run`` leaves the tag out. Nothing is uploaded
without ``--upload``, which asks twine to: it finds its own credentials.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def version_of(root: Path) -> str:
    """The version that the package says it has."""
    text = (root / "src" / "auucmax" / "_version.py").read_text()
    (found,) = re.findall(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    return str(found)


def problems(root: Path) -> list[str]:
    """What keeps this tree from being a release; none: nothing does."""
    version, found = version_of(root), []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"_version.py should have a version as 1.2.3, got {version}. Raise it.")
    heading = next(iter(re.findall("^## (.*)$", (root / "CHANGES.md").read_text(), re.M)), "none")
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading):
        found.append(
            f"the first heading of CHANGES.md should be {version} with a date, got {heading}. Mend "
            f"one of the two."
        )
    citation = re.findall("^version: (.*)$", (root / "CITATION.cff").read_text(), re.M)
    if citation != [version]:
        found.append(f"CITATION.cff should have version: {version}, got {citation}. Mend it.")
    if changed := git(root, "status", "--porcelain"):
        found.append(
            f"the tree should have no changes that are not committed, got {len(changed)}. Commit "
            f"them."
        )
    if git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} should not exist yet, got one. Raise the version.")
    return found


def git(root: Path, *arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def build(folder: Path) -> list[Path]:
    """Wheel and archive in a folder, checked."""
    run = [sys.executable, "-m"]
    subprocess.run([*run, "build", "--outdir", str(folder), str(ROOT)], check=True)
    files = sorted(folder.iterdir())
    subprocess.run([*run, "twine", "check", "--strict", *map(str, files)], check=True)
    return files


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python release.py", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="check and build, and do not tag")
    parser.add_argument("--upload", action="store_true", help="pass both files to twine upload")
    options = parser.parse_args(arguments)
    if options.dry_run and options.upload:
        parser.error("--upload should come without --dry-run, got both. Leave one out.")
    if found := problems(ROOT):
        print("\n".join(found), file=sys.stderr)
        return 1
    version = version_of(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        files = build(Path(folder))
        print(f"built and checked: {', '.join(file.name for file in files)}")
        if options.dry_run:
            return 0
        git(ROOT, "tag", "-a", f"v{version}", "-m", f"auucmax {version}")
        print(f"tagged v{version}; push it with: git push origin v{version}")
        if options.upload:
            command = [sys.executable, "-m", "twine", "upload", *map(str, files)]
            return subprocess.run(command, check=False).returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
