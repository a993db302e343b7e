"""Tables that ibis has from Spark are read like any other."""

import ibis
import pandas as pd
import pytest
from tests.spark.cases import MARKS

from auucmax.data import read_table

pytestmark = [pytest.mark.gate, *MARKS, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_a_table_of_spark(spark):
    frame = pd.DataFrame({"id": range(50), "age": [k / 2 for k in range(50)], "town": "Oslo"})
    spark.createDataFrame(frame).createOrReplaceTempView("people")
    table = ibis.pyspark.connect(spark).table("people")
    found = read_table(table.filter(table.id >= 10)).sort_values("id")
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), frame[10:].reset_index(drop=True), check_dtype=False
    )
