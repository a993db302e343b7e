"""Fit, score, evaluate and certify where the rows are: in a Spark DataFrame, on any cluster.

Every question to the rows is one Spark job: each partition makes a small summary of its rows, from
Arrow batches, and the summaries are added up in the order of the partitions. Nothing else leaves
the executors. What comes back is the same local model, interval or certificate as in memory.

Needs the extra ``spark`` (pyspark 4), and auucmax installed where the executors run. Classic
sessions and Spark Connect do. Results do not depend on which executor does what, nor on whether one
is lost, as long as Spark gives each partition's rows in the same order when it reads them again: so
it does for files, but not after a shuffle (a join, say), the result of which should be written
first. (A cache does not help: what a lost executor held of it is made again.) Only folds and halves
of the rows depend on their order, and a fit that uses them stops if it changes; one without them
does not depend on it, but for rounding.
"""

from auucmax.spark.rows import SparkRows
from auucmax.spark.trial import certify, evaluate, fit, score

__all__ = ["SparkRows", "certify", "evaluate", "fit", "score"]
