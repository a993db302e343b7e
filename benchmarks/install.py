"""What an installation costs: megabytes of each package in a fresh virtual environment.

The wheel is built and installed with pip, as a user would; then each extra of ``EXTRAS`` is added,
and counts what it installs (up to gigabytes for ``deep`` and ``spark``, which are left out).
Megabytes are millions of bytes of all files of a package, compiled bytecode included; pip itself
does not count. ``--quick``: the base alone.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, columns

EXTRAS = ("plot", "arrow", "lightgbm", "excel", "postgres", "onnx")
MOST_MB = 700  #: of the base
LARGE_MB = 10  #: of a package that is listed by itself
_TOOLS = ("pip", "setuptools")  # of the environment itself


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A record for each package of the base, and for each that an extra adds."""
    with tempfile.TemporaryDirectory() as folder:
        wheel, python = build_wheel(Path(folder)), make_environment(Path(folder) / "venv")
        records: list[dict[str, Any]] = []
        for case in ("base", *(() if arguments.quick else EXTRAS)):
            install(python, str(wheel) if case == "base" else f"{wheel}[{case}]")
            known = {record["package"] for record in records}
            found = packages(site_of(python))
            records += [one | {"case": case} for one in found if one["package"] not in known]
    return [{"benchmark": "install", **record} for record in records]


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    _pip(Path(sys.executable), "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """The Python of a new virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def install(python: Path, what: str) -> None:
    """Install with pip, in the environment of this Python."""
    _pip(python, "install", "-q", what)


def site_of(python: Path) -> Path:
    """Where the packages of an environment are."""
    (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
    return site


def packages(site: Path) -> list[dict[str, Any]]:
    """Name, version and megabytes of every package of a folder, the largest first."""
    found = [
        {"package": _normal(one.name), "version": one.version, "mb": round(_bytes(one) / 1e6, 1)}
        for one in distributions(path=[str(site)])
        if one.name not in _TOOLS
    ]
    return sorted(found, key=lambda record: (-record["mb"], record["package"]))


def _bytes(distribution: Distribution) -> int:
    paths = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def table_of(records: list[dict[str, Any]]) -> str:
    """Every package of the base, and the sum of each extra.

    >>> one = {"case": "base", "package": "numpy", "version": "2.4", "mb": 71.4}
    >>> print(table_of([one, one | {"case": "plot", "package": "pillow", "mb": 20.0}]))
    package             MB
    numpy 2.4         71.4
    base, 1 packages  71.4
    plot: pillow      20.0
    """
    base = [record for record in records if record["case"] == "base"]
    rows = [[f"{one['package']} {one['version']}", f"{one['mb']:.1f}"] for one in base]
    for case, own in _by_case(records).items():
        names = ", ".join([one["package"] for one in own][:3]) + (", ..." if len(own) > 3 else "")
        label = f"base, {len(base)} packages" if case == "base" else f"{case}: {names}"
        rows.append([label, f"{sum(one['mb'] for one in own):.1f}"])
    return columns(["package", "MB"], rows, n_texts=1)


def _by_case(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Records of the base, and of what each extra adds."""
    cases = dict.fromkeys(record["case"] for record in records)
    return {case: [record for record in records if record["case"] == case] for case in cases}


def summary_table(records: list[dict[str, Any]]) -> str:
    """The largest packages of the base and the sum of the others, as a table for a page.

    >>> one = {"case": "base", "package": "numpy", "version": "2.4", "mb": 71.4}
    >>> print(summary_table([one, one | {"mb": 2.0}, one | {"case": "plot", "mb": 20.0}]))
    | package | MB |
    |---|---|
    | numpy 2.4 | 71 |
    | 1 other | 2 |
    | **base, 2 packages** | **73** |
    | extra `plot` | +20 |
    """
    base, *extras = _by_case(records).items()
    large = [record for record in base[1] if record["mb"] >= LARGE_MB]
    lines = ["| package | MB |", "|---|---|"]
    lines += [f"| {one['package']} {one['version']} | {one['mb']:.0f} |" for one in large]
    rest = len(base[1]) - len(large)
    others = sum(one["mb"] for one in base[1] if one not in large)
    lines.append(f"| {rest} other{'s' if rest > 1 else ''} | {others:.0f} |")
    total = sum(one["mb"] for one in base[1])
    lines.append(f"| **base, {len(base[1])} packages** | **{total:.0f}** |")
    lines += [
        f"| extra `{extra}` | {sum(one['mb'] for one in own):+.0f} |" for extra, own in extras
    ]
    return "\n".join(lines)


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)
