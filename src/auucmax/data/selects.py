"""What a query may be: one SELECT of tables, with functions that only compute.

A SELECT can act: functions write files, call models that cost money, send texts to other servers,
wait, lock. So a function is taken only if it is known to compute alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from auucmax._messages import visible
from auucmax._optional import import_optional
from auucmax.data.table_errors import TableError

# Functions that sqlglot does not know by name and that compute a value of their arguments, or tell
# the time, a random number, or who asks. Of the rest nobody can tell what they do.
_HARMLESS = """
    adddate addtime age all_match any_match approx_most_frequent approx_set array_dims array_fill
    array_frequency array_histogram array_lower array_ndims array_positions array_repeat
    array_replace array_sample array_shuffle array_to_json array_union array_upper arrays_overlap
    as_integer as_varchar asind assert_true at_timezone beta_cdf bin bin_to_uuid bit_count
    bitwise_left_shift bround cardinality casefold changes charset checksum clock_timestamp
    codepoint combinations conditional_true_event conv convert_from convert_to cosine_similarity
    count_min_sketch crc32 date_part daterange datetime digest e erf error every export_set family
    field find_in_set format_datetime format_number from_big_endian_64 from_csv from_days
    from_unixtime_nanos gcd generate_subscripts geometric_mean get get_byte get_format
    great_circle_distance h3_longlatash3 hamming_distance hash hashtext haversine histogram
    histogram_numeric hll_count.extract hll_count.init hll_count.merge hll_count.merge_partial
    hll_estimate hll_sketch_agg hll_sketch_estimate hmac_sha256 hstore human_readable_seconds hypot
    ieee_divide inet6_aton inet_aton inet_ntoa infinity int4range int8range inverse_normal_cdf
    is_finite is_infinite is_ipv4 is_json_scalar is_uuid is_variant_null isempty isfinite isnotnull
    isnull json json_array json_array_elements json_array_elements_text json_array_get
    json_array_length json_arrayagg json_build_array json_build_object json_contains
    json_contains_path json_depth json_each json_exists json_length json_merge_patch
    json_object_keys json_overlaps json_pretty json_quote json_search json_size json_tuple
    json_typeof json_unquote json_valid jsonb_agg jsonb_array_elements jsonb_array_elements_text
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_extract_path jsonb_extract_path_text jsonb_object_keys jsonb_path_exists jsonb_path_query
    jsonb_path_query_first jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_to_record
    jsonb_to_recordset jsonb_typeof julianday lcm likelihood likely lower_inc luhn_check make_date
    make_set make_timestamptz makedate map_agg map_concat map_entries map_filter map_union
    map_values masklen merge metaphone microsecond mid millisecond min_scale
    monotonically_increasing_id multimap_agg murmur3 name_const nan network ngrams none_match
    normal_cdf now nullifzero num_nonnulls num_nulls numeric_histogram numrange object_pick oct
    octet_length ord parse_duration percentile period_add period_diff pg_typeof plainto_tsquery
    pmod point positive printf qdigest_agg quote quote_ident quote_literal quote_nullable
    random_normal range_merge ratio_to_report regexp_match regexp_matches regexp_position
    regexp_split_to_array regexp_split_to_table row row_to_json scale schema_of_json sec_to_time
    session_window sha224 similarity sind split_to_multimap spooky_hash_v2_64 st_distance_sphere
    st_geogpoint st_setsrid st_x st_y statement_timestamp strcmp string_to_table subdate subtime
    sysdate table tdigest_agg time time_bucket time_format time_to_sec timediff timeofday
    timestamp_millis timestamp_seconds timezone timezone_hour timezone_minute to_base
    to_big_endian_64 to_csv to_iso8601 to_json to_jsonb to_milliseconds to_object to_seconds
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_timestamp_tz to_tsquery to_tsvector total
    transaction_timestamp transform_keys transform_values trim_array trim_scale try_avg try_sum
    try_to_number try_to_timestamp ts_rank tsrange tstzrange unaccent uncompress unistr
    unix_timestamp unixepoch unlikely url_decode url_extract_host url_extract_parameter
    url_extract_path user uuid_extract_timestamp uuid_generate_v4 uuid_short uuid_to_bin
    value_at_quantile variant_get websearch_to_tsquery weekday wilson_interval_lower window
    with_timezone word_stem xpath xxhash64 yearweek yow zeroifnull zip zip_with
"""
# Classes of sqlglot of functions that call out, read files or secrets, or count a sequence on; and
# names that begin so.
_ACTING = frozenset({
    "DynamicIdentifier", "FeaturesAtTime", "GenerateBool", "GenerateDouble", "GenerateEmbedding",
    "GenerateInt", "GenerateTable", "GenerateText", "NextValueFor", "Predict", "ReadCSV",
    "ReadParquet", "Secret", "ToFile", "VectorSearch",
})  # fmt: skip
_ACTING_BEGIN = ("AI", "ML")
_CLAUSES = {"QueryTransform": "TRANSFORM ... USING", "Lock": "FOR UPDATE", "Hint": "/*+ a hint */"}


def check_select(query: str, dialect: Any) -> str:
    """The query without its comments; a TableError unless it is one SELECT that changes nothing.

    >>> check_select("SELECT age /* in years */ FROM people", "trino")
    'SELECT age FROM people'
    >>> check_select("SELECT 1; DROP TABLE people", "trino")
    Traceback (most recent call last):
    auucmax.data.table_errors.TableError: query should be one SELECT, got \
'SELECT 1; DROP TABLE people'. Other statements are not run.
    """
    sqlglot = import_optional("sqlglot", extra="warehouse")
    exp = sqlglot.exp
    changes = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Drop, exp.Alter)
    try:
        statements = sqlglot.parse(query, read=dialect)
    except Exception as error:  # of odd queries also errors that are none of its own
        first = visible((str(error) or type(error).__name__).splitlines()[0])[:200]
        raise TableError(
            f"query should be one SELECT, got {query[:80]!r}: {first}. Check it, or make it a view "
            f"and name that."
        ) from error
    found = [statement for statement in statements if statement is not None]
    if (
        len(found) != 1
        or not isinstance(found[0], exp.Query | exp.Values)
        or found[0].find(*changes)
    ):
        raise TableError(
            f"query should be one SELECT, got {query[:80]!r}. Other statements are not run."
        )
    for name in _odd(found[0], exp):
        raise refused(name)
    if dialect == "postgres" and (call := found[0].find(exp.Dot, exp.Operator)):
        raise refused(call.sql(dialect))  # (x).f is f(x), and operators are functions
    return str(found[0].sql(dialect, comments=False))


def refused(name: str) -> TableError:
    """The error for something in a query that may do more than compute."""
    return TableError(
        f"query should be one SELECT of tables and of functions that only compute, got "
        f"{name[:80]!r}, which is not known to. Leave it out, or make a view that has it and "
        f"name that, or pass a table of ibis."
    )


def names_of_tables_columns(query: str) -> list[str]:
    """Names of columns that stand after that of a table: to PostgreSQL t.f may be f(t), too.

    >>> names_of_tables_columns("SELECT age, t.Town FROM people t")
    ['Town', 'town']
    """
    sqlglot = import_optional("sqlglot", extra="warehouse")
    tree = sqlglot.parse_one(query, read="postgres")
    found = [own.name for own in tree.find_all(sqlglot.exp.Column) if own.table]
    return sorted({*found, *map(str.lower, found)})


def _odd(tree: Any, exp: Any) -> Iterator[str]:
    """What in a query may do more than compute."""
    harmless = frozenset(_HARMLESS.split())
    for node in tree.walk():
        kind = type(node).__name__
        if kind in _CLAUSES:
            yield _CLAUSES[kind]
        elif isinstance(node, exp.Column) and node.table and node.name.lower() == "nextval":
            yield f"{node.table}.{node.name}"  # counts a sequence of Snowflake on
        elif isinstance(node, exp.Func):
            unknown = isinstance(node, exp.Anonymous | exp.AnonymousAggFunc)
            own = node.name if unknown else node.sql_name()
            place = _place(node, exp)
            name = f"{place}.{own}" if place else own
            acts = kind in _ACTING or kind.startswith(_ACTING_BEGIN)
            if acts or ((unknown or place) and name.lower() not in harmless):
                yield name


def _place(call: Any, exp: Any) -> str:
    """What stands before a function's name and a dot: others than the database's own are there."""
    parent = call.parent
    if isinstance(parent, exp.Dot) and parent.expression is call:
        return str(parent.this.sql())
    return parent.db if isinstance(parent, exp.Table) and parent.this is call else ""
