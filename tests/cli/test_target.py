"""``auucmax target``: the list, and the numbers about it."""

import pandas as pd
import pytest
from tests.cli.commands import result_of, run

from auucmax import InputError, load
from auucmax.data import databases
from auucmax.data.reading import read_table


def test_a_share_a_budget_and_the_highest_profit(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv"
    by_share = result_of(f"{command} -s .3")["decision"]["plan"]
    assert (by_share["counts"], by_share["spend"], by_share["profit"]) == ([300], None, None)
    by_budget = result_of(f"{command} -b 100 --cost .5 --value 3")["decision"]["plan"]
    assert (by_budget["counts"], by_budget["spend"]) == ([200], 100.0)
    gain, profit = by_budget["gain"], by_budget["profit"]
    for end in ("value", "lower", "upper"):
        assert profit[end] == pytest.approx(3 * gain[end] - 100)
    best = result_of(f"{command} --cost mail=.5 --value 3")["decision"]["plan"]
    assert best["profit"]["value"] >= profit["value"]
    assert result_of(f"{command} --cost .5 --value 3")["decision"]["plan"] == best
    people = pd.read_csv(tmp_path / "list.csv")
    assert list(people) == ["person", "rank", "score", "uplift", "decile", "arm"]
    assert people["score"].is_monotonic_decreasing


def test_an_empty_list(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv"
    assert result_of(f"{command} --budget .1 --cost .5")["decision"]["plan"]["counts"] == [0]
    assert len(pd.read_csv(tmp_path / "list.csv")) == 0


def test_people_who_opted_out_are_not_in_the_list(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv"
    run(command)
    everybody = pd.read_csv(tmp_path / "list.csv")
    first = everybody["person"][:7]
    first.to_frame().assign(why="asked").to_csv(tmp_path / "out.csv", index=False)
    found = result_of(f"{command} --exclude {tmp_path}/out.csv --all")
    assert found["n_excluded"] == 7
    assert found["decision"]["plan"]["guaranteed"] is None
    left = pd.read_csv(tmp_path / "list.csv")
    assert not set(first) & set(left["person"])
    assert len(left) == len(pd.read_csv(files.new)) - 7
    assert (left["arm"] == "mail").sum() == round(0.3 * len(left))
    pd.Series([*first[:2], "nobody"], name="person").to_csv(tmp_path / "out.csv", index=False)
    found = result_of(f"{command} --exclude {tmp_path}/out.csv")
    assert (found["n_excluded"], found["n_unknown_ids"]) == (2, 1)
    (tmp_path / "none.csv").write_text("person,why\n")  # nobody
    assert result_of(f"{command} --exclude {tmp_path}/none.csv")["n_excluded"] == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "list.csv"), everybody)


def test_reasons_and_everyone(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv --reasons --all"
    assert run(command).exit_code == 0
    people = pd.read_csv(tmp_path / "list.csv")
    assert len(people) == 1_000
    assert people["reasons"][:300].notna().all()


@pytest.mark.filterwarnings("ignore:'joined' of people.parquet is read as")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_larger_than_memory_is_scored_in_batches(files, tmp_path, monkeypatch, kind):
    people = pd.concat([pd.read_csv(files.new)] * 5, ignore_index=True)
    people["person"] = [f"p{k}" for k in range(len(people))]
    assert len(people) > 2_048  # DuckDB's smallest batch
    source = tmp_path / f"people.{kind}"
    people.to_csv(source, index=False) if kind == "csv" else people.to_parquet(source)
    command = f"target {files.model} {source} --share .3 -o {tmp_path}/list.csv"
    assert run(command).exit_code == 0
    whole = pd.read_csv(tmp_path / "list.csv")
    monkeypatch.setenv("AUUCMAX_MEMORY_MB", "0.01")
    monkeypatch.setattr(databases, "_BATCH", 1)
    model, sizes = load(files.model), []

    def each(rows):
        sizes.append(len(rows))
        return model.narrow(rows)

    narrow = read_table(source, each=each)
    assert len(sizes) > 1
    assert sum(sizes) == len(people)
    assert run(command).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "list.csv"), whole)
    with pytest.raises(InputError) as error:
        model.target(narrow, share=0.3, reasons=True)
    assert error.value.parameter == "reasons"
