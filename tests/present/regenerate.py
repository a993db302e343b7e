"""Write all snapshots again: ``python tests/present/regenerate.py [NAME ...]``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.present.cases import CASES, FOLDER, snapshot

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CASES:
        (FOLDER / f"{name}.txt").write_text(snapshot(name), encoding="utf-8")
