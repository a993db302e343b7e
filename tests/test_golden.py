"""Model files of each release, which every later one reads: same scores, same evidence.

``python tests/test_golden.py`` writes those of this version into tests/golden/VERSION, once, when
it is released (or those of the version that is named: ``python tests/test_golden.py 0.2.0``). They
are never written again: a reader that no longer understands them is what the test is for.
"""

import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from auucmax import __version__, make_trial
from auucmax._json import plain
from auucmax.trial_model import (
    ArmsModel,
    ModelFileError,
    fit_arms_model,
    fit_trial_model,
    load_model,
    save_model,
)
from auucmax.trial_model.file import FORMAT

GOLDEN = Path(__file__).resolve().parent / "golden"
FILES = sorted(GOLDEN.glob("*/*.model"))
FACTS = ("rows", "effect", "auuc", "certificate", "failed_check")
N_PEOPLE = 12


def table(money=False, arms=False):
    """Rows of a made-up trial: numbers, a code, texts, booleans, dates, missing values."""
    trial = make_trial(1_500, n_features=3, n_noise=1, ate=0.1, random_state=2)
    rng = np.random.default_rng(2)
    n = len(trial.y)
    found = (
        trial.X.astype(float)
        .round(3)
        .assign(
            town=rng.choice(["Oslo", "Rome", "it's", None], n),
            plan=rng.choice([1, 2, 3], n),
            vip=rng.random(n) < 0.5,
            joined=pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
            y=trial.y,
        )
    )
    found.loc[rng.random(n) < 0.1, "x0"] = np.nan
    if money:
        found["y"] *= rng.gamma(2, 30, n).round(2)
    label = np.where(rng.random(n) < 0.5, "mail", "phone") if arms else "mail"
    return found.assign(arm=np.where(trial.treatment == 1, label, "none"))


def fitted(name):
    """The models whose files are kept."""
    how = {"treatment": "arm", "outcome": "y", "control": "none", "forget_rows": True}
    if name == "arms":
        costs = {"mail": 1.0, "phone": 2.0}
        return fit_arms_model(table(arms=True), **how, model="tm", cost=costs, budget=0.5)
    if name == "money":
        return fit_trial_model(table(money=True), **how, model="auto", outcome_range=(0.0, 500.0))
    return fit_trial_model(table(), **how, model={"linear": "auucmax", "ensemble": "auto"}[name])


def told(model):
    """What is compared of the evidence: plain JSON."""
    if isinstance(model, ArmsModel):
        arms = {label: told(own) for label, own in model.models.items()}
        return {"arms": arms, "certificate": plain(model.policy["certificate"])}
    known = model.evidence.expected
    facts = {name: model.evidence[name] for name in FACTS}
    return plain(facts | {"share": known.share[::10], "uplift": known.uplift[::10]})


def people():
    """Some rows, as plain lists by column; a number that training did not have among them."""
    rows = table()[:N_PEOPLE].drop(columns=["y", "arm"])
    rows.loc[0, "plan"] = 9
    rows["joined"] = rows["joined"].astype(str)
    return {name: json.loads(rows[name].to_json(orient="values")) for name in rows}


def write(version):
    """Write the files of a version, which has none yet."""
    folder = GOLDEN / version
    folder.mkdir(parents=True)
    for name in ("linear", "ensemble", "arms", "money"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few rows
            model = fitted(name)
        save_model(model, folder / f"{name}.model")
        rows = people()
        expected = {
            "people": rows,
            "score": model.predict(frame(rows)).tolist(),
            "uplift": model.uplift(frame(rows)).tolist(),
            "evidence": told(model),
        }
        text = json.dumps(expected, allow_nan=False)
        (folder / f"{name}.json").write_text(f"{text}\n")


def frame(rows):
    return pd.DataFrame(rows).assign(joined=lambda own: pd.to_datetime(own["joined"]))


def alike(found, expected):
    """Whether plain JSON is the same, numbers to 1e-9; what later releases add is left out."""
    if isinstance(expected, dict):
        return all(name in found and alike(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    if isinstance(expected, float):
        return found is not None and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return found == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_release_are_read(path):
    model = load_model(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    rows = frame(expected["people"])
    np.testing.assert_allclose(model.predict(rows), expected["score"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.uplift(rows), expected["uplift"], rtol=0, atol=1e-9)
    assert alike(told(model), expected["evidence"])


def test_other_numbers_are_seen():
    own = json.loads(FILES[0].with_suffix(".json").read_text())["evidence"]
    assert alike(own | {"more": 1}, own)
    assert not alike({}, own)
    assert not alike({"a": [1.0, 2.0 + 1e-6]}, {"a": [1.0, 2.0]})


def test_the_last_release_has_files_of_each_kind():
    releases = sorted({path.parent for path in FILES})
    assert {path.stem for path in FILES if path.parent == releases[-1]} == {
        "linear", "ensemble", "arms", "money",
    }  # fmt: skip
    assert not list(GOLDEN.glob("*/*.key"))
    assert sum(path.stat().st_size for path in FILES) < 200_000 * len(releases)


def test_a_file_of_a_later_format_is_refused_in_a_line(tmp_path):
    number = b'"version":%d'
    content = FILES[-1].read_bytes()
    assert number % FORMAT.version in content
    model = load_model(FILES[-1])
    later = type(FORMAT)(FORMAT.name, FORMAT.version + 1, FORMAT.noun)
    later.write(tmp_path / "later.model", {"summary": model.summary}, {})
    with pytest.raises(ModelFileError, match="A newer auucmax wrote it: upgrade auucmax") as error:
        load_model(tmp_path / "later.model")
    assert "\n" not in str(error.value)


if __name__ == "__main__":
    write(*sys.argv[1:] or [__version__])
