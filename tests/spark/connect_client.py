"""What a user of Spark Connect does, as a script; its argument: settings of the server, as JSON."""

import json
import sys

import numpy as np
import pytest

from auucmax import AUUCMax, auuc_inference, make_trial
from auucmax import spark as on_spark
from auucmax.encoding import TableEncoder


def main(settings):
    # Here, since pytest imports this file as well, and pyspark.sql.connect may exit.
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    builder = SparkSession.builder.remote("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert isinstance(session, ConnectSession)
    trial = make_trial(2000, n_features=4, random_state=0)
    frame = trial.X.assign(town=np.where(trial.X.iloc[:, 0] > 0, "a", "b"))
    df = session.createDataFrame(frame.assign(y=trial.y, t=trial.treatment))
    columns = {"treatment": "t", "outcome": "y"}
    settings = AUUCMax(selection=None, norm=0.5)

    numbers = df.drop("town")
    model = on_spark.fit(numbers, **columns, model=settings)
    memory = settings.fit(trial.X, trial.y, treatment=trial.treatment)
    assert np.abs(model.coef_ - memory.coef_).max() < 1e-6 * np.abs(memory.coef_).max()
    scores = on_spark.score(numbers, model).select("score").toPandas()["score"].to_numpy()
    assert np.allclose(np.sort(scores), np.sort(memory.predict(trial.X)), atol=1e-9)
    found = on_spark.evaluate(numbers, score=model, **columns)
    exact = auuc_inference(trial.y, memory.predict(trial.X), treatment=trial.treatment)
    assert abs(found.estimate - exact.estimate) < 1e-6
    with pytest.raises(ValueError, match="should be new to the model"):
        on_spark.certify(numbers, score=model, **columns)

    raw = on_spark.fit(df, **columns, model=settings)
    encoded = TableEncoder().fit_transform(frame)
    memory = AUUCMax(selection=None, norm=0.5).fit(encoded, trial.y, treatment=trial.treatment)
    assert np.abs(raw[-1].coef_ - memory.coef_).max() < 1e-6 * np.abs(memory.coef_).max()

    session.stop()
    print("all is as in memory")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
