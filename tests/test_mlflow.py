"""The flavour of MLflow: what is stored, and that it scores as the model itself does."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import arms_table, fitted
from tests.model.trial_table import named_model, trial_table

pytestmark = [
    pytest.mark.gate,
    # Of MLflow and its libraries, on what they will change.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),
]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported: no test calls home
mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed (extra mlflow)")

from auucmax import mlflow as flavour  # noqa: E402
from auucmax._errors import InputError  # noqa: E402

FILES = {
    "MLmodel", "README.md", "conda.yaml", "evidence.json", "model.auucmax", "python_env.yaml",
    "report.html", "requirements.txt",
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return named_model("tm")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "visits"
    flavour.save_model(model, path, metadata={"season": "spring"})
    return path


@pytest.fixture(scope="module")
def people():
    return trial_table(200, random_state=4)[["age", "town", "member", "joined", "spent"]]


def check(model, people, found):
    assert list(found) == ["score", "uplift", "arm"]
    np.testing.assert_allclose(found["score"], model.predict(people), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["uplift"], model.uplift(people)[:, 0], rtol=0, atol=1e-12)
    assert set(found["arm"]) <= set(model.roles.arms)


def test_what_is_stored(model, folder):
    assert {path.name for path in folder.iterdir()} == FILES
    assert json.loads((folder / "evidence.json").read_text()) == model.evidence.to_json()
    assert (folder / "README.md").read_text().startswith("---\nlibrary_name: auucmax\n")
    assert "</html>" in (folder / "report.html").read_text()
    described = mlflow.models.Model.load(str(folder))
    assert described.flavors["python_function"]["loader_module"] == "auucmax.mlflow"
    assert described.flavors["auucmax"]["data"] == "model.auucmax"
    assert described.metadata == {"season": "spring"}
    assert not [p for p in folder.rglob("*") if p.suffix in (".pkl", ".pickle", ".joblib")]
    assert "auucmax==" in (folder / "requirements.txt").read_text()


def test_the_signature_has_the_columns_and_their_types(model, folder):
    signature = mlflow.models.Model.load(str(folder)).signature
    types = {c.name: str(c.type).rpartition(".")[2] for c in signature.inputs.inputs}
    assert types == {
        "age": "double", "town": "string", "member": "boolean", "joined": "datetime",
        "spent": "double",
    }  # fmt: skip
    assert signature.outputs.input_names() == ["score", "uplift", "arm"]


def test_it_scores_as_the_model_does(model, folder, people):
    loaded = mlflow.pyfunc.load_model(str(folder))
    check(model, people, loaded.predict(people))
    gaps = people.assign(
        town=[None, *people["town"][1:]], member=[None, *people["member"][1:]], joined=pd.NaT
    )
    check(model, gaps, loaded.predict(gaps))
    with pytest.raises(mlflow.MlflowException, match="spent"):
        loaded.predict(people.drop(columns="spent"))
    whole = people.assign(spent=people["spent"].astype(int))
    with pytest.raises(mlflow.MlflowException, match=r"spent\. Can not safely convert int64"):
        loaded.predict(whole)
    check(model, whole, loaded.predict(whole.astype({"spent": float})))
    own = loaded.get_raw_model()
    assert (own.predict(people) == model.predict(people)).all()


def test_the_model_itself_comes_back_with_its_evidence(model, folder, people):
    again = flavour.load_model(folder)
    assert again.evidence.to_json() == model.evidence.to_json()
    assert (again.predict(people) == model.predict(people)).all()


def test_several_arms(tmp_path):
    model, people = fitted(arms_table(1_500)), arms_table(100, random_state=3)
    flavour.save_model(model, tmp_path / "arms")
    facts = json.loads((tmp_path / "arms" / "evidence.json").read_text())
    assert facts == model.evidence.to_json()
    found = mlflow.pyfunc.load_model(str(tmp_path / "arms")).predict(people)
    uplift = model.uplift(people)
    assert list(found) == ["score mail", "uplift mail", "score phone", "uplift phone", "arm"]
    np.testing.assert_allclose(found.iloc[:, [0, 2]], model.predict(people), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.iloc[:, [1, 3]], uplift, rtol=0, atol=1e-12)
    best = np.where(uplift.max(axis=1) > 0, 1 + uplift.argmax(axis=1), 0)
    assert found["arm"].tolist() == np.array(["none", "mail", "phone"])[best].tolist()


def test_it_is_logged_to_a_run(model, people, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    try:
        with mlflow.start_run():
            info = flavour.log_model(model, "visits", tags={"season": "spring"})
        check(model, people, mlflow.pyfunc.load_model(info.model_uri).predict(people))
        assert flavour.load_model(info.model_uri).evidence.to_json() == model.evidence.to_json()
        local = mlflow.artifacts.download_artifacts(artifact_uri=info.model_uri)
        assert {path.name for path in Path(local).iterdir()} >= FILES
    finally:
        mlflow.set_tracking_uri(None)


def test_another_folder_is_refused(model, folder, tmp_path):
    with pytest.raises(ValueError, match="a new or empty folder"):
        flavour.save_model(model, folder)
    other = mlflow.models.Model(flavors={"python_function": {"loader_module": "elsewhere"}})
    other.save(str(tmp_path / "MLmodel"))
    model.save(tmp_path / "model.auucmax")
    with pytest.raises(InputError, match="python_function"):
        flavour.load_model(tmp_path)
    (tmp_path / "MLmodel").write_text('flavors:\n  "\\e[2Jevil": {a: 1}\n')
    with pytest.raises(ValueError, match=r"flavour auucmax, got \ufffd.2Jevil"):
        flavour.load_model(tmp_path)


@pytest.mark.parametrize("is_there", [False, True])
def test_what_fails_leaves_nothing_in_the_way(model, tmp_path, is_there):
    path = tmp_path / "visits"
    if is_there:
        path.mkdir()
    with pytest.raises(Exception, match="nowhere"):
        flavour.save_model(model, path, pip_requirements=str(tmp_path / "nowhere.txt"))
    with pytest.raises(TypeError):
        flavour.save_model(model, path, metadata=3)
    assert [file.name for file in tmp_path.rglob("*")] == ["visits"] * is_there
    flavour.save_model(model, path)
    assert {file.name for file in path.iterdir()} == FILES


def test_a_link_out_of_the_folder_is_not_followed(model, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "visits")
    (tmp_path / "visits" / "model.auucmax").rename(tmp_path / "outside")
    (tmp_path / "visits" / "model.auucmax").symlink_to("../outside")
    for load in (flavour.load_model, mlflow.pyfunc.load_model):
        with pytest.raises(ValueError, match="got a link out of it"):
            load(str(tmp_path / "visits"))
