"""Fit, score, evaluate and certify on Spark DataFrames.

Every pass over the rows is one Spark job: each partition makes a small summary of its rows, from
Arrow batches, and the summaries are added up in the order of the partitions. Nothing else leaves
the executors. The result is the same local model, interval or certificate as in memory.

Needs the extra ``spark`` (pyspark 4), and auucmax installed where the executors run. Classic
sessions and Spark Connect both work. With a ``random_state`` results depend neither on the
executors nor on losing one, as long as Spark returns each partition's rows in the same order when
it reads them again. It does for files, but not after a shuffle (a join, for example): write its
result first. (A cache does not help, since the part of a lost executor is computed again.) Only
folds and halves of the rows depend on their order, and a fit that uses them stops if it changes.
"""

from auucmax.spark.rows import SparkRows
from auucmax.spark.trial import certify, evaluate, fit, read_trial, score

__all__ = ["SparkRows", "certify", "evaluate", "fit", "read_trial", "score"]
