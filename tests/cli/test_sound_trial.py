"""A table that is no trial is not learnt from, and if it is all the same, that is said first."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, run
from tests.model.trial_table import trial_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Those who spend more are treated more often; a column of after; lost rows; a relapse."""
    folder = tmp_path_factory.mktemp("sound")
    table, rng = trial_table(2_400, random_state=4), np.random.default_rng(0)
    mailed = table["arm"] == "mail"
    chance = 1 / (1 + np.exp(-(table["spent"] - 100) / 60))
    found = {
        "sorted": table.assign(arm=np.where(rng.random(2_400) < chance, "mail", "none")),
        "sent": table.assign(sent=mailed * 1),
        "paid": table.assign(paid=np.where(table["visit"] == 1, table["spent"], 0.0)),
        "opened": table.assign(opened=mailed & (rng.random(2_400) < 0.3)),
        "lost": table.assign(visit=table["visit"].mask(mailed & (rng.random(2_400) < 0.2))),
        "open": table.assign(visit=table["visit"].mask(rng.random(2_400) < 0.1)),
        "relapse": table.assign(visit=1 - table["visit"]),
        "cents": table.assign(
            arm=np.where(rng.random(2_400) < chance, "mail", "none"),
            cents=table["spent"].rank(method="first").astype(int),
            pairs=(table["spent"] // 2).astype(int),
        ).drop(columns="spent"),
        "fair": table,
        # Recorded after treatment, which has no effect on average, and right about most visits.
        "replied": table.assign(visit=(visit := rng.permutation(table["visit"]))).assign(
            replied=np.where(rng.random(2_400) < 0.06, 1 - visit, visit)
        ),
    }
    for name, frame in found.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def despite(tables):
    """A model of a table that is no trial."""
    path = tables / "despite.model"
    result = run(f"fit {tables}/sorted.csv {FIT} --id person --despite-check -o {path}")
    assert result.exit_code == 0, result.output
    return path, result


@pytest.mark.parametrize("more", ["", "--ignore spent", "--features age,town"])
def test_check_is_not_talked_round(tables, more):
    result = run(f"check {tables}/sorted.csv {NAMED} --id person {more}")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("The check fails: ")
    assert "treatment depends on spent: not randomised" in first
    assert "--ignore" not in result.stdout


@pytest.mark.gate
@pytest.mark.parametrize(
    "more", ["--id cents --after pairs", "--groups pairs --id person --after cents"]
)
def test_treatment_that_follows_the_id_or_the_group_is_found(tables, more, tmp_path):
    name = more.split()[1]
    result = run(f"check {tables}/cents.csv {NAMED} {more}")
    assert result.exit_code == 1
    assert f"treatment depends on {name}: not randomised" in result.stdout
    assert f"pass --after {name}" in result.stdout
    result = run(f"fit {tables}/cents.csv {FIT} {more} -o {tmp_path}/m.model")
    assert result.exit_code == 1
    assert f"treatment depends on {name}" in result.stderr


@pytest.mark.quick_cases("opened")
@pytest.mark.parametrize(
    ("name", "words", "healed"),
    [
        ("sorted", "The check fails: ", "--after spent"),
        ("sent", "sent: known only after treatment? Then nothing may be learnt from it: pass "
         "--after sent.", "--after sent"),
        ("paid", "almost settle the outcome: paid. paid: known only after treatment?",
         "--after paid"),
        ("opened", "treatment depends on opened: not randomised", "--after opened"),
    ],
)  # fmt: skip
def test_fit_stops_with_the_reason(tables, tmp_path, name, words, healed):
    line = f"fit {tables}/{name}.csv {FIT} --id person -o {tmp_path}/m.model"
    result = run(line)
    assert result.exit_code == 1
    (told,) = [text for text in result.stderr.splitlines() if not text.startswith("note: ")]
    assert told.startswith("auucmax: The check fails: ")
    assert words in told
    assert told.endswith("without a certificate, pass --despite-check.")
    assert not (tmp_path / "m.model").exists()
    if name in ("sorted", "opened"):
        column = healed.split()[1]
        assert run(f"{line} --ignore {column}").exit_code == 1
    result = run(f"{line} --json {healed}")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["failed_check"] is None
    assert found["certificate"] is not None
    verdict = found["randomisation"]["verdict"]
    assert "provided that" in verdict


def test_a_fit_despite_the_check_is_said_first_everywhere(tables, despite, tmp_path):
    model, fitted = despite
    new, words = tables / "fair.csv", "WARNING. The check fails: "
    commands = {
        "evaluate": f"evaluate {model}",
        "target": f"target {model} {new} -s .3 --cost 1 --value 2 -o {tmp_path}/list.csv",
    }
    told = {name: run(line).stdout for name, line in commands.items()} | {"fit": fitted.stdout}
    for text in told.values():
        assert text.startswith(words)
        for number in ("gain over", "AUUC", "expected gain", "effect of"):
            assert number not in text
        assert not re.search(r"profit[^.\n]*\d", text)
    assert "none, for the check of the trial fails" in told["evaluate"]
    assert "ntervals" not in told["target"]  # there are none
    report = run(f"report {model} -o {tmp_path}/page.html")
    assert report.stdout.startswith("The check fails: ")
    page = (tmp_path / "page.html").read_text()
    body = page[page.index("<main>") :]
    assert body.index('role="alert"><strong>The trial fails its check') < body.index("<section")
    assert body.index("The check fails: ") < body.index("<section")
    for word in ("of the effect of treating everyone", "random choice", "h-hero", "range"):
        assert word not in body.split('id="numbers"')[0]
    assert "despite a failed check" in run(f"export {model} --to json").stderr


@pytest.mark.gate
def test_what_machines_read_says_it_too(tables, despite, tmp_path):
    model, new = despite[0], tables / "fair.csv"
    judgements = {"auuc", "effect", "qini", "ratio", "risk", "deciles", "rivals", "curve", "plan"}
    again = f"fit {tables}/sorted.csv {FIT} --id person --despite-check -o {tmp_path}/m.model"
    for line in (f"evaluate {model}", again, f"report {model} -o {tmp_path}/page.html"):
        found = json.loads(run(f"{line} --json").stdout)
        assert "The check fails" in found["failed_check"]
        assert found["certificate"] is None
        assert not judgements & set(found)
        assert found["despite_failed_check"]["auuc"]["estimate"] > 0
    found = json.loads(run(f"target {model} {new} -s .3 -o {tmp_path}/l.csv --json").stdout)
    assert "The check fails" in found["failed_check"]
    assert found["expected"]["gain"] is None
    assert all(row["gain"] is None for row in found["plan"]["rows"])
    found = json.loads(run(f"report {model} -o {tmp_path}/page.html --json").stdout)
    assert found["banner"] == found["failed_check"] == found["headline"]["text"]
    assert found["headline"]["ratio"] is found["headline"]["gain"] is None
    result = run(f"target {model} {new} --cost 1 --value 2 -o {tmp_path}/l.csv")
    assert result.exit_code == 2
    assert "no profit is known. The check fails: " in result.stderr


@pytest.mark.gate
def test_nothing_is_compared_on_rows_that_are_no_trial(tables, despite):
    for line in (f"compare {tables}/sorted.csv --against {despite[0]} --models cvt",
                 f"compare {tables}/sorted.csv {NAMED} --models cvt --splits 2"):  # fmt: skip
        for more in ("", " --json"):
            result = run(line + more)
            assert result.exit_code == 1
            told = json.loads(result.stdout) if more else {}  # one object, which compares nothing
            assert more or not result.stdout
            assert told.keys() <= {"failed_check", "randomisation"}
            why = told.get("failed_check") or result.stderr
            assert "treatment depends on spent: not randomised" in why
            assert "such rows: the AUUC of each means little." in result.stdout + result.stderr


@pytest.mark.gate
def test_new_rows_of_a_sound_trial_judge_the_model_and_it_is_still_said(tables, despite):
    other = trial_table(2_000, random_state=8)
    other.assign(person="new " + other["person"]).to_csv(tables / "new.csv", index=False)
    text = run(f"evaluate {despite[0]} {tables}/new.csv").stdout
    assert text.startswith("WARNING. This model was fitted despite a failed check of its trial.")
    assert "gain over a random order" in text


@pytest.mark.gate
def test_new_rows_may_have_outcomes_that_are_missing(tables, tmp_path):
    run(f"fit {tables}/fair.csv {FIT} --id person -o {tmp_path}/m.model")
    rng, new = np.random.default_rng(0), trial_table(1_500, random_state=8)
    new["visit"] = new["visit"].mask(rng.random(1_500) < 0.1)
    new.assign(person="new " + new["person"]).to_csv(tmp_path / "late.csv", index=False)
    line = f"evaluate {tmp_path}/m.model {tmp_path}/late.csv --json"
    assert "pass --drop-missing-outcomes" in run(line).stderr
    found = json.loads(run(f"{line} --drop-missing-outcomes").stdout)
    assert "missing outcomes" in {test["name"] for test in found["randomisation"]["tests"]}
    known = new[(new["arm"] != "phone") & new["visit"].notna()]
    assert 0.97 * len(known) < found["rows"]["n_rows"] <= len(known)


@pytest.mark.gate
def test_scores_of_a_table_that_is_no_trial_get_no_certificate(tables):
    line = f"evaluate {tables}/sorted.csv --score-column age {NAMED}"
    frame = pd.read_csv(tables / "sorted.csv").dropna(subset="age")
    frame.to_csv(tables / "known.csv", index=False)
    text = run(line.replace("sorted", "known")).stdout
    assert text.startswith("WARNING. The check fails: ")
    assert "gain over" not in text
    assert "none, for the check of the trial fails" in text


@pytest.mark.gate
def test_outcomes_that_are_missing_are_counted_by_arm(tables, tmp_path):
    table = pd.read_csv(tables / "lost.csv")
    gone = table[table["visit"].isna()]
    result = run(f"check {tables}/lost.csv {NAMED} --id person --details")
    assert result.exit_code == 1
    assert "outcomes are missing more often in one arm" in result.stdout.splitlines()[0]
    assert re.search(r"missing outcomes +p < 0.0001 \(corrected < 0.0001\); mail", result.stdout)
    line = f"fit {tables}/lost.csv {FIT} --id person -o {tmp_path}/m.model"
    result = run(line)
    assert result.exit_code == 2
    n = (table["arm"] == "mail").sum()
    assert f"got none in {len(gone):,} of {n:,} treated and 0 of" in result.stderr
    assert "(p < 0.0001: chance does not explain this)" in result.stderr
    assert "pass --drop-missing-outcomes" in result.stderr
    assert run(f"{line} --drop-missing-outcomes").exit_code == 1


@pytest.mark.gate
def test_rows_whose_outcome_is_not_known_yet_are_left_out(tables, tmp_path):
    result = run(f"check {tables}/open.csv {NAMED} --id person --details")
    assert result.exit_code == 0
    assert "missing outcomes" in result.stdout
    model = tmp_path / "m.model"
    line = f"fit {tables}/open.csv {FIT} --id person --drop-missing-outcomes -o {model}"
    found = json.loads(run(f"{line} --json").stdout)
    table = pd.read_csv(tables / "open.csv")
    known = table[(table["arm"] != "phone") & table["visit"].notna()]
    assert found["rows"]["n_rows"] == len(known)
    assert found["rows"]["mean_treated"] == known[known["arm"] == "mail"]["visit"].mean()
    left = (table["arm"] != "phone").sum() - len(known)
    assert found["table"]["without_outcome"] == left
    assert "missing outcomes" in {test["name"] for test in found["randomisation"]["tests"]}
    # The model remembers it: its own file is known again.
    assert json.loads(run(f"evaluate {model} {tables}/open.csv --json").stdout) == json.loads(
        run(f"evaluate {model} --json").stdout
    )


@pytest.mark.gate
def test_lower_is_better(tables, tmp_path):
    higher, lower = tmp_path / "higher.model", tmp_path / "lower.model"
    run(f"fit {tables}/fair.csv {FIT} --id person -o {higher}")
    result = run(f"fit {tables}/relapse.csv {FIT} --id person --lower-is-better -o {lower}")
    assert "in visit avoided" in result.stdout
    found = [json.loads(run(f"evaluate {model} --json").stdout) for model in (higher, lower)]
    assert found[0]["auuc"] == found[1]["auuc"]
    assert found[0]["certificate"] == found[1]["certificate"]
    # Means are those of the table.
    assert found[0]["rows"]["mean_treated"] == pytest.approx(1 - found[1]["rows"]["mean_treated"])
    lists = []
    for model in (higher, lower):
        told = run(f"target {model} {tables}/fair.csv -s .3 -o {tmp_path}/list.csv").stdout
        lists.append(pd.read_csv(tmp_path / "list.csv"))
        assert ("expected gain in visit avoided" in told) == (model == lower)
    pd.testing.assert_frame_equal(*lists)
    run(f"report {lower} -o {tmp_path}/page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Gain in visit avoided" in page
    assert "mean of visit<" in page
    same = run(f"evaluate {lower} {tables}/relapse.csv --lower-is-better --json")
    assert json.loads(same.stdout)["auuc"] == found[1]["auuc"]
    assert "for the model has none" in run(f"evaluate {higher} --lower-is-better").stderr


@pytest.mark.gate
def test_a_column_that_predicts_the_outcome_too_well_is_asked_about(tables, tmp_path):
    asked = "replied predicts the outcome with AUC 0.9"
    data, model = f"{tables}/replied.csv", tmp_path / "m.model"
    for line in (
        f"check {data} {NAMED}",
        f"fit {data} {FIT} -o {model}",
        f"evaluate {model} --details",
    ):
        result = run(line)
        assert result.exit_code == 0, result.output
        assert (result.stdout + result.stderr).count(asked) == 1
    assert "--after replied" in result.stdout
    # Whatever is announced is so on this condition.
    condition = "Provided that replied was known before treatment: "
    shown = " ".join(result.stdout.split())
    assert shown.startswith(f"{condition}the ranking is not shown to beat a random order")
    page = f"report {model} -o {tmp_path}/page.html"
    told = " ".join(run(page).stdout.split())
    assert told.startswith("At no share is the gain above zero beyond doubt. ")
    assert f"{condition}if you treat the 30% with the highest" in told
    assert (
        f'<p class="caution">{condition.rstrip(": ")}.</p>' in (tmp_path / "page.html").read_text()
    )
    target = f"target {model} {data} -s .3 -o {tmp_path}/list.csv"
    assert f"{condition}the expected gain is that of the trial." in run(target).stdout
    assert asked not in run(f"fit {data} {FIT} --after replied -o {model}").output
    for line in (f"evaluate {model}", page, target):
        assert "Provided that" not in run(line).stdout
