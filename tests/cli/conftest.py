"""Small files of a made-up trial, and models that the command itself fitted on them."""

import pytest
from tests.cli.commands import FIT, Files, run
from tests.model.trial_table import households, trial_table


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    found = Files(
        folder, *(folder / name for name in ("trial.csv", "new.csv", "m.model", "n.model"))
    )
    table = trial_table(4_000, random_state=3)
    table.iloc[:3_000].to_csv(found.trial, index=False)
    table.iloc[3_000:].drop(columns=["arm", "visit"]).to_csv(found.new, index=False)
    for line in (f"--id person -o {found.model}", f"--ignore person -o {found.model_without_id}"):
        result = run(f"fit {found.trial} {FIT} {line}")
        assert result.exit_code == 0, result.output
    return found


@pytest.fixture(params=["model", "model_without_id"])
def model(request, files):
    return getattr(files, request.param)


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A trial of households, later ones, and a model that knows of them."""
    folder = tmp_path_factory.mktemp("homes")
    households().to_csv(folder / "trial.csv", index=False)
    new = households(random_state=1)
    new = new.assign(home="new " + new["home"], score=new["x0"])
    new.to_csv(folder / "new.csv", index=False)
    line = f"fit {folder}/trial.csv {FIT} --id person --groups home -o {folder}/m.model"
    result = run(line)
    assert result.exit_code == 0, result.output
    return folder
