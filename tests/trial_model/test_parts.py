"""A table in pieces gives the model that it gives in one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.trial_model.trial_table import NAMES, trial_table

from auucmax.data import pieces as pieces_module
from auucmax.data.pieces import open_table
from auucmax.data.reading import read_table
from auucmax.report import summarise_model
from auucmax.trial_model import fit_trial_model, parts, rival_scores, target
from auucmax.trial_model import model as model_module
from auucmax.trial_model.rows import ColumnNames, trial_pieces

FEATURES = ["age", "town", "member", "joined", "spent"]


def in_pieces(path):
    return replace(open_table(path, memory=1), piece_rows=2_048)


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    trial_table(6_000).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module", params=["person", None], ids=["ids", "places"])
def fits(request, csv):
    """In memory and in pieces."""
    options = NAMES | {"id": request.param, "features": FEATURES}
    return [fit_trial_model(table, **options) for table in (read_table(csv), in_pieces(csv))]


def test_the_same_model_and_the_same_evidence(fits):
    memory, pieces = fits
    assert pieces.split.to_dict() == memory.split.to_dict()
    assert pieces.encoder.to_dict() == memory.encoder.to_dict()
    np.testing.assert_allclose(pieces.estimator.coef_, memory.estimator.coef_, rtol=1e-6)
    for name in ("rows", "features", "outcome", "randomisation", "warnings"):
        assert pieces.summary[name] == memory.summary[name]
    assert pieces.summary["test"]["estimate"] == pytest.approx(memory.summary["test"]["estimate"])
    for own, other in zip(pieces.test_rows, memory.test_rows, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-12)
    score = np.linspace(-1, 1, 50)
    np.testing.assert_allclose(pieces.calibration(score), memory.calibration(score))


def test_the_same_rows_are_judged(fits, csv):
    _, model = fits
    whole, pieces = model.held_out(read_table(csv)), model.held_out(in_pieces(csv))
    assert pieces.note == whole.note
    assert "no evidence" in pieces.note
    for name in ("y", "treatment", "positions"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))
    np.testing.assert_array_equal(model.predict(pieces.frame), model.predict(whole.frame))
    assert model.summary["test"]["n_rows"] == len(pieces.y)


def test_the_same_people_are_chosen(fits, csv):
    model, _ = fits
    whole, pieces = (target(model, t, share=0.3) for t in (read_table(csv), in_pieces(csv)))
    pd.testing.assert_frame_equal(pieces.people, whole.people)
    assert pieces.to_dict() == whole.to_dict()


def test_the_report_of_pieces_has_no_rivals(fits, csv):
    model, _ = fits
    found = summarise_model(model, in_pieces(csv), rivals=None)
    whole = summarise_model(model, read_table(csv), rivals=())
    assert found["headline"] == whole["headline"]
    assert found["rivals"] == []
    with pytest.raises(ValueError, match=r"rivals should be fitted on a table that fits.*rows.csv"):
        rival_scores(model, in_pieces(csv), ["tm"])


def test_large_tables_keep_few_rows_from_training_and_encode_from_a_sample(csv, monkeypatch):
    monkeypatch.setattr(parts, "MOST_ROWS", {"calibration": 500, "test": 900})
    monkeypatch.setattr(pieces_module, "SAMPLE_ROWS", 2_000)
    model = fit_trial_model(in_pieces(csv), **NAMES, id="person")
    rows = model.summary["rows"]["parts"]
    assert sum(rows["test"].values()) == pytest.approx(900, abs=4 * 30)
    assert sum(rows["calibration"].values()) == pytest.approx(500, abs=4 * 22)
    assert sum(map(sum, (part.values() for part in rows.values()))) == model.summary["rows"]["used"]
    assert model.summary["randomisation"]["n_rows"] == pytest.approx(1_800, abs=4 * 40)
    assert len(model.held_out(read_table(csv)).y) == sum(rows["test"].values())
    assert model.summary["certificate"]["gain_lower_bound"] > 0


def test_of_many_new_rows_some_are_judged(fits, tmp_path, monkeypatch):
    model, _ = fits
    path = tmp_path / "new.csv"
    new = trial_table(6_000, random_state=9).assign(person=[f"n{k}" for k in range(6_000)])
    new.to_csv(path, index=False)
    monkeypatch.setattr(model_module, "MAX_JUDGED", 1_000)
    found = model.held_out(in_pieces(path))
    assert len(found.y) == pytest.approx(1_000, abs=4 * 30)
    assert f"Of these, {len(found.y):,} are judged, drawn at random." in found.note
    np.testing.assert_array_equal(found.y, new["visit"].to_numpy()[found.positions])


def test_a_piece_without_rows_of_the_two_arms(tmp_path):
    table = trial_table(7_000)
    others = (np.arange(7_000) >= 2_048) & (np.arange(7_000) < 4_096)
    table["arm"] = np.where(
        others, "phone", np.where(table["arm"] == "phone", "mail", table["arm"])
    )
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    memory, pieces = (
        fit_trial_model(t, **NAMES, id="person") for t in (read_table(path), in_pieces(path))
    )
    assert pieces.summary["rows"] == memory.summary["rows"]
    np.testing.assert_allclose(pieces.estimator.coef_, memory.estimator.coef_, rtol=1e-6)
    assert len(pieces.held_out(in_pieces(path)).y) == len(memory.held_out(read_table(path)).y)


def test_a_table_that_changes_between_readings_is_refused(fits, csv, tmp_path, monkeypatch):
    model, _ = fits
    path = tmp_path / "rows.csv"
    whole = trial_table(8_000)

    def change_after(n_readings):
        """The file is another from then on."""
        whole.to_csv(path, index=False)
        table, n_read = in_pieces(path), 0
        read = type(table).pieces

        def pieces(self, columns=None):
            nonlocal n_read
            n_read += 1
            if n_read > n_readings:
                whole[::-1].to_csv(path, index=False)
            return read(self, columns)

        monkeypatch.setattr(type(table), "pieces", pieces)
        return table

    options = NAMES | {"id": model.columns.id, "features": FEATURES}
    with pytest.raises(ValueError, match=r"rows.csv should give the same rows in the same order"):
        fit_trial_model(change_after(2), **options)  # after the arms and the marks
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"rows.csv should give the same rows in the same order"):
        model.held_out(change_after(2 if model.columns.id else 1))
    monkeypatch.undo()
    longer = replace(in_pieces(path), n_rows=7_999)
    with pytest.raises(ValueError, match="should give the same rows every time it is read, got 8,"):
        target(model, longer, share=0.3)


def test_a_folder_without_room_for_the_rows_is_told(csv, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parts._PartFiles, "write", full)
    with pytest.raises(ValueError, match=r"temporary files, .* should have room .* Set TMPDIR"):
        fit_trial_model(in_pieces(csv), **NAMES, id="person")


def test_what_pieces_cannot_do(csv, tmp_path):
    with pytest.raises(ValueError, match=r"should be 'auucmax' for a table that does not fit"):
        fit_trial_model(in_pieces(csv), **NAMES, model="tm")
    table = trial_table(5_000)
    path = tmp_path / "rows.csv"
    ends = np.flatnonzero(table["arm"] == "mail")[[0, -1]]  # in different pieces
    table.assign(person=table["person"].where(~table.index.isin(ends), "p")).to_csv(
        path, index=False
    )
    with pytest.raises(ValueError, match="the id 'person' should be different in every row"):
        fit_trial_model(in_pieces(path), **NAMES, id="person")
    one_arm = ColumnNames("arm", "visit", None, "mail", "post", ("age",))
    with pytest.raises(ValueError, match="should hold 'mail' and 'post', got 'mail', 'none', 'ph"):
        list(trial_pieces(in_pieces(path), one_arm, check=True))
    few = table.assign(arm=np.where(np.arange(len(table)) < 4_998, "mail", "none"))
    few.to_csv(path, index=False)
    with pytest.raises(ValueError, match="rows should hold both arms"):
        fit_trial_model(in_pieces(path), **NAMES, id="person")
