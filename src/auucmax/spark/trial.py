"""Fit, score, evaluate and certify on Spark DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from auucmax import certificates
from auucmax._validation import check_choice, check_level, check_whole
from auucmax.certificates.certify import HISTOGRAM_METHODS, fitted_on
from auucmax.data import Trial
from auucmax.data import read_trial as _read_trial
from auucmax.data.hashing import Checksum
from auucmax.data.tables import N_BUCKETS, Draw, TableError, check_columns
from auucmax.encoding import TableEncoder
from auucmax.encoding.frames import frame_of
from auucmax.estimators.auucmax import AUUCMax
from auucmax.metrics.bins import score_levels
from auucmax.metrics.inference import AUUCInference
from auucmax.metrics.ranking import RANKINGS, RankingKind
from auucmax.model import UpliftModel
from auucmax.rows import Batch, Rows, Share
from auucmax.rows.arrow import feature_columns
from auucmax.spark.rows import (
    NAME,
    SparkRows,
    arrow_columns,
    blocks,
    cached,
    map_batches,
    partition,
    quoted,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENCODER_ROWS = 200_000  #: from which an encoder is fitted
ENCODED = 8  #: numbers that a raw value may become: blocks of rows are shorter by it
N_BINS = 16_384  #: of histograms that travel: 1 MB each, after a sample of 4 MB for their edges


def fit(
    df: DataFrame,
    *,
    treatment: str,
    outcome: str,
    features: Sequence[str] | None = None,
    treated: Any = None,
    control: Any = None,
    model: AUUCMax | None = None,
    encoder: TableEncoder | None = None,
    cache: bool = True,
) -> AUUCMax | Pipeline:
    """Fit AUUC-max to a DataFrame; equals the fit in memory to 1e-6.

    Parameters
    ----------
    df : rows of a randomised trial.
    treatment, outcome : their columns. Treatment is 0/1 or boolean, or ``treated`` and ``control``
        name its two values, and rows of other arms are left out. Outcomes are numbers: 0/1, counts,
        money.
    features : columns of numbers, texts, booleans and dates; default: all other columns.
    model : :class:`auucmax.AUUCMax` with the settings to use; it is not changed. Default:
        ``AUUCMax()``, which compares norms over 5 folds in about 20 jobs; with more than a million
        rows on a random million, in the memory of the driver. ``selection=None`` takes about 5.
    encoder : :class:`TableEncoder` with the settings to use. Default: none if all features are
        numbers or booleans, otherwise ``TableEncoder()``. Numbers with missing values need one. Of
        more than 200,000 rows it is fitted on a random 200,000; texts that these lack have zeros.
        Columns with many levels get shrunk means of outcomes unless ``model`` sets rows aside for a
        certificate; then the DataFrame must return its rows in the same order every time.
    cache : keep the numbers of all rows in the executors' memory (or disks) while fitting: each
        later pass is then several times faster. Without it the DataFrame must return the same rows
        every time it is read.

    Returns
    -------
    The fitted model; with an encoder, ``Pipeline`` of both, which takes frames with the raw
    columns. Both are local: ``predict`` needs no Spark. It reads timestamps with a time zone as
    moments in UTC; ``toPandas()`` writes them in the zone of the session, which should be UTC.
    """
    model = AUUCMax() if model is None else clone(model)
    names = feature_columns(features, treatment, outcome, df.columns, NAME)
    raw = _has_texts(df, names) or encoder is not None
    columns = arrow_columns(df, names, treatment, outcome, treated, control, raw=raw)
    source = SparkRows(df, columns)
    rows: Rows = source
    if raw:
        # Rows that are set aside for a certificate must not determine what levels are worth.
        encoder = TableEncoder() if encoder is None else clone(encoder)
        fitted = fit_encoder(source, encoder, with_outcomes=model.selection != "certificate")
        transform, terms = fitted.transform, tuple(map(str, fitted.get_feature_names_out()))
        by_outcomes = any(column.outcome_terms for column in fitted.columns_)
        if by_outcomes:

            def training(batch: Batch) -> Batch:
                return batch._replace(X=fitted.training_features(batch.X, batch.keys))

            rows = source.part(training).map(np.asarray, terms)
        else:
            rows = source.map(transform, terms)
    with cached(rows) if cache else nullcontext(rows) as ready:
        model.fit(ready)
    if not raw:
        return model
    if by_outcomes:  # it is to know its rows by what ``transform`` makes of them
        (model.checksum_,) = source.map(transform, terms).total(_checksum)
    del model.feature_names_in_  # in a Pipeline it gets arrays
    return Pipeline([("encoder", fitted), ("model", model)])


def fit_encoder(rows: SparkRows, encoder: TableEncoder, *, with_outcomes: bool) -> TableEncoder:
    """Fit an encoder to all rows, or a random sample of :data:`ENCODER_ROWS`.

    ``with_outcomes``: columns with many levels may get shrunk means of outcomes.
    """
    (n_rows,) = rows.total(lambda batch: len(batch.y))
    share = Share(min(ENCODER_ROWS / n_rows, 1.0), seed=0)
    (batches,) = rows.total(lambda batch: [share(batch)])
    X, y, treated, keys, _ = zip(*(own for own in batches if len(own.y)), strict=True)
    encoder.fit(
        pd.concat(X, ignore_index=True),
        np.concatenate(y) if with_outcomes else None,
        np.concatenate(treated),
        np.concatenate(keys),
    )
    if n_rows > ENCODER_ROWS:  # other rows may have texts that are rare
        encoder.new_levels = "other"
    return encoder


def read_trial(
    df: DataFrame,
    *,
    max_rows: int | None = None,
    id: str | None = None,
    groups: str | None = None,
    **roles: Any,
) -> Trial:
    """Read a DataFrame, or a random sample of it, as a trial in memory.

    Use it for what needs all rows at once, such as :func:`auucmax.fit`; :func:`score` applies the
    model to every row of the DataFrame.

    Parameters
    ----------
    max_rows : about so many rows are drawn, by a hash of ``groups`` or ``id`` if they are named,
        where the rows are. By default, as many as fit into a quarter of the free memory.
    id, groups, roles : as in :func:`auucmax.read_trial`.
    """
    from pyspark.sql import functions as sql

    by = groups or id
    check_columns([by] if by else [], df.columns, NAME)
    n = Draw(by, max_rows).buckets(df.count(), lambda: frame_of(df.limit(10_000).toArrow()), NAME)
    if n is not None:
        key = sql.monotonically_increasing_id() if by is None else sql.col(quoted(by))
        bucket = sql.pmod(sql.xxhash64(key.cast("string")), sql.lit(N_BUCKETS))
        df = df.where(bucket < n)
    return _read_trial(frame_of(df.toArrow()), id=id, groups=groups, **roles)


def score(
    df: DataFrame, model: Any, *, column: str = "score", features: Sequence[str] | None = None
) -> DataFrame:
    """Add a column with a fitted model's scores, computed in the executors.

    For an ``UpliftModel`` there are ``score`` and ``uplift`` instead, with several arms
    ``score LABEL`` and ``uplift LABEL`` for each.

    Parameters
    ----------
    df : rows with the model's features, by name; all columns stay. (They pass through Python:
        select those that you need first.)
    model : anything fitted that has ``predict``: an UpliftModel, another model, a Pipeline.
    column : its name, unless the model is an UpliftModel; a column of this name is replaced.
    features : the model's columns, if it was fitted without names.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    names = _model_features(model, df, features)
    predict = model.predict
    added = [column]
    if isinstance(model, UpliftModel):
        predict = model.scored
        added = model.score_names
    taken = {name.casefold() for name in added}
    kept = [name for name in df.columns if name.casefold() not in taken]

    def add_scores(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        partition()  # threads of this task are its own cores
        # Arrow batches, of 10,000 rows as a rule, are too small to be worth their calls.
        for table in blocks(batches, ENCODED * len(names)):
            frame = table.select(names).to_pandas()
            scores = np.asarray(predict(frame), dtype=np.float64).reshape(len(frame), len(added))
            table = table.select(kept)
            for name, own in zip(added, scores.T, strict=True):
                table = table.append_column(name, pa.array(np.ascontiguousarray(own)))
            yield from table.to_batches()

    own = [field for field in df.schema.fields if field.name not in added]
    schema = StructType([*own, *(StructField(name, DoubleType()) for name in added)])
    return map_batches(df, add_scores, schema)


def evaluate(
    df: DataFrame,
    *,
    treatment: str,
    outcome: str,
    score: Any = "score",
    treated: Any = None,
    control: Any = None,
    features: Sequence[str] | None = None,
    level: float = 0.95,
    ranking: RankingKind = "joint",
    n_bins: int = N_BINS,
) -> AUUCInference:
    """AUUC of a score with a conservative interval, in two jobs.

    Parameters
    ----------
    df : rows that the score was not fitted on.
    score : a column of scores, or a fitted model as in :func:`score`.
    n_bins : scores are counted in at most so many bins; see :class:`BinnedLevels`.
    treatment, outcome, treated, control : as in :func:`fit`; outcomes may be any numbers.
    level, ranking : as in :func:`auucmax.auuc_inference`.
    """
    check_level(level)
    check_choice(ranking, "ranking", RANKINGS)
    rows, predict = _scored(df, score, features, treatment, outcome, treated, control)
    return score_levels(rows, predict, n_bins=n_bins).inference(level, ranking)


def certify(
    df: DataFrame,
    *,
    treatment: str,
    outcome: str,
    score: Any = "score",
    treated: Any = None,
    control: Any = None,
    features: Sequence[str] | None = None,
    delta: float = 0.05,
    n_bins: int = N_BINS,
    **options: Any,
) -> certificates.Certificate:
    """Lower bound of AUUC with probability 1 - delta, in two or three jobs.

    ``df`` holds rows that the score was not fitted on, nor chosen with. A model of this package,
    also inside a Pipeline or a search, and one that was loaded from a file, keeps a checksum of its
    training rows, and is not certified on exactly these.
    ``options`` are method, joint, n_candidates and outcome_range of :func:`auucmax.certify`; the
    rest as in :func:`evaluate`.
    """
    check_level(delta, "delta")
    check_choice(options.get("method", "auto"), "method", HISTOGRAM_METHODS)
    n_candidates = check_whole(options.pop("n_candidates", 1), "n_candidates", 1)
    rows, predict = _scored(df, score, features, treatment, outcome, treated, control)
    fitted = fitted_on(score)
    if fitted is not None:  # an error if it was fitted on these rows
        seen = fitted.seen
        # Only the number of columns after these steps is known.
        names = [f"x{k}" for k in range(seen.n_features or 0)] if seen.steps else rows.names
        (found,) = rows.map(seen, names).total(_checksum)
        n_candidates *= fitted.candidates(found)
    levels = score_levels(rows, predict, n_bins=n_bins)
    return certificates.certify(levels, delta=delta, n_candidates=n_candidates, **options)


def _checksum(batch: Batch) -> Checksum:
    return Checksum.of(batch.X, batch.y, batch.treated)


def _scored(
    df: DataFrame, score: Any, features: Sequence[str] | None, *arms: Any
) -> tuple[SparkRows, Callable[[Any], Any]]:
    """Rows of a score column or of a model's columns, and the function that scores them.

    ``arms``: the treatment, the outcome, and the labels of the arms.
    """
    if isinstance(score, str):
        rows = SparkRows(df, arrow_columns(df, [score], *arms))
        return rows, lambda X: X[:, 0].astype(np.float64)
    names = _model_features(score, df, features)
    return SparkRows(df, arrow_columns(df, names, *arms, raw=True)), score.predict


def _has_texts(df: DataFrame, columns: Sequence[str]) -> bool:
    """Whether some columns are texts or dates; raise an error for unsupported types."""
    from pyspark.sql import types

    numbers = types.NumericType, types.BooleanType
    others = types.StringType, types.DateType, types.TimestampType, types.TimestampNTZType
    kinds = {field.name: field.dataType for field in df.schema.fields}
    for name in columns:
        if not isinstance(kinds[name], (*numbers, *others)):
            raise TableError(
                f"column {name!r} should hold numbers, texts, booleans or dates, got "
                f"{kinds[name].simpleString():.50}. Convert or drop the column."
            )
    return any(isinstance(kinds[name], others) for name in columns)


def _model_features(model: Any, df: DataFrame, features: Sequence[str] | None) -> list[str]:
    """The columns that a fitted model needs."""
    names = features
    if names is None and isinstance(model, UpliftModel):
        names = model.columns
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "the model should know the names of its features, got one without. Pass features=, the "
            "columns in the order in which it was fitted."
        )
    check_columns(list(names), df.columns, NAME)
    return [str(name) for name in names]
