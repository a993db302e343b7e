"""Queries that act are refused, whatever the dialect; what only computes passes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from auucmax.data.selects import check_select
from auucmax.data.table_errors import TableError
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part
from auucmax.export import to_sql

EVERYWHERE = """
    coalesce(a, b); nullif(a, b); greatest(a, b); least(a, b); abs(a); round(a, 2); ceil(a);
    floor(a); sqrt(a); power(a, 2); ln(a); exp(a); mod(a, 2); sign(a); upper(a); lower(a); trim(a);
    length(a); substr(a, 1, 2); replace(a, 'x', 'y'); concat(a, b); cast(a AS int); md5(a);
    count(DISTINCT a); sum(a); avg(a); min(a); max(a); stddev(a); variance(a); current_date;
    row_number() OVER (ORDER BY a); rank() OVER (ORDER BY a); lag(a) OVER (ORDER BY a);
    ntile(4) OVER (ORDER BY a); first_value(a) OVER (PARTITION BY b ORDER BY a);
    extract(year FROM a); CASE WHEN a = 1 THEN 2 END; a LIKE 'x%'; a IN (SELECT b FROM other)
"""
OWN = {
    "bigquery": """
        safe_cast(a AS int64); if(a, 1, 0); ifnull(a, b); date_trunc(a, month);
        farm_fingerprint(a); timestamp_diff(a, b, second); date_add(a, INTERVAL 1 day);
        parse_date('%Y', a); format_timestamp('%Y', a); unix_seconds(a); json_value(a, '$.b');
        json_extract(a, '$.b'); regexp_contains(a, 'x'); regexp_extract(a, 'x'); sha256(a);
        to_hex(a); approx_quantiles(a, 4); approx_count_distinct(a); array_agg(a);
        string_agg(a); safe_divide(a, b); ieee_divide(a, b); net.host(a); safe.substr(a, 1, 2);
        countif(a); hll_count.extract(a); generate_uuid()
    """,
    "snowflake": """
        try_cast(a AS int); iff(a, 1, 0); zeroifnull(a); div0(a, b); date_trunc('month', a);
        datediff(day, a, b); to_timestamp(a); to_timestamp_ntz(a); try_to_timestamp(a);
        a:b::int; parse_json(a); get_path(a, 'b'); object_construct('a', 1); listagg(a, ',');
        hash(a); regexp_like(a, 'x'); regexp_substr(a, 'x'); split_part(a, ',', 1); sha2(a);
        hll(a); approx_percentile(a, .5); median(a); ratio_to_report(a) OVER ();
        convert_timezone('UTC', a); haversine(1, 2, 3, 4); seq4(); max_by(a, b);
        width_bucket(a, 1, 2, 3)
    """,
    "databricks": """
        try_cast(a AS int); nvl(a, b); date_trunc('month', a); datediff(a, b); to_date(a);
        from_unixtime(a); make_date(1, 2, 3); get_json_object(a, '$.b'); from_json(a, 'b int');
        get(a, 0); element_at(a, 1); size(a); explode(a); collect_list(a);
        filter(a, x -> x > 1); transform(a, x -> x + 1); regexp_extract(a, 'x'); rlike(a, 'x');
        sha2(a, 256); hash(a); xxhash64(a); crc32(a); approx_count_distinct(a);
        percentile_approx(a, .5); pmod(a, b); max_by(a, b); try_divide(a, b); isnull(a);
        map_values(a); weekday(a)
    """,
    "trino": """
        try_cast(a AS int); try(a); date_trunc('month', a); date_diff('day', a, b);
        to_iso8601(a); at_timezone(a, 'UTC'); from_unixtime(a); json_extract_scalar(a, '$.b');
        cardinality(a); json_array_length(a); any_match(a, x -> x > 1); map_agg(a, b);
        histogram(a); transform(a, x -> x); regexp_like(a, 'x'); regexp_extract(a, 'x');
        xxhash64(a); murmur3(a); crc32(a); to_hex(a); checksum(a); approx_distinct(a);
        approx_percentile(a, .5); count_if(a); is_finite(a); url_extract_host(a); arbitrary(a);
        spooky_hash_v2_64(a)
    """,
    "mysql": """
        if(a, 1, 0); ifnull(a, b); date_format(a, '%Y'); datediff(a, b);
        timestampdiff(day, a, b); now(); unix_timestamp(a); from_unixtime(a); yearweek(a);
        json_extract(a, '$.b'); a->>'$.b'; json_unquote(a); json_length(a);
        json_contains(a, '1'); regexp_like(a, 'x'); a REGEXP 'x'; regexp_substr(a, 'x');
        group_concat(a); substring_index(a, ',', 1); field(a, 'x'); conv(a, 10, 2);
        find_in_set('x', a); sha1(a); sha2(a, 256); crc32(a); uuid(); any_value(a); inet_aton(a)
    """,
    "sqlite": """
        ifnull(a, b); iif(a, 1, 0); date(a); datetime(a); julianday(a); strftime('%Y', a);
        unixepoch(a); json_extract(a, '$.b'); a->>'$.b'; json_array_length(a); json_valid(a);
        group_concat(a); total(a); instr(a, 'x'); printf('%d', a); hex(a); typeof(a); a GLOB 'x'
    """,
    "postgres": """
        date_trunc('month', a); date_part('year', a); age(a, b); now(); make_date(1, 2, 3);
        a::date; to_char(a, 'YYYY'); to_timestamp(a); a->>'b'; a#>>'{b}'; a @> '{}';
        jsonb_typeof(a); jsonb_extract_path_text(a, 'b'); jsonb_array_length(a); to_jsonb(a);
        jsonb_agg(a); regexp_replace(a, 'x', 'y'); regexp_match(a, 'x'); a ~ 'x';
        split_part(a, ',', 1); string_agg(a, ','); cardinality(a); array_agg(a); sha256(a);
        hashtext(a); encode(a, 'hex'); percentile_cont(.5) WITHIN GROUP (ORDER BY a);
        bool_or(a); width_bucket(a, 1, 2, 3); count(*) FILTER (WHERE a > 1);
        generate_series(1, 5); gen_random_uuid(); num_nulls(a, b)
    """,
}


@pytest.mark.parametrize("dialect", OWN)
def test_common_functions_pass(dialect):
    for call in (EVERYWHERE + ";" + OWN[dialect]).split(";"):
        assert check_select(f"SELECT {call} AS found FROM people", dialect).startswith("SELECT ")


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("trino", "SELECT query, system FROM TABLE(sequence(start => 1, stop => 5))"),
        ("snowflake", "SELECT f.value FROM people, LATERAL FLATTEN(input => people.bought) f"),
        ("snowflake", "SELECT * FROM TABLE(GENERATOR(rowcount => 5))"),
        ("bigquery", "SELECT * FROM UNNEST([1, 2]) AS query"),
        ("databricks", "SELECT * FROM people LATERAL VIEW explode(bought) b AS item"),
        ("postgres", "TABLE people"),
        ("postgres", "VALUES (1), (2)"),
        ("postgres", "SELECT nextval FROM people, jsonb_each(bought) b"),
        ("postgres", "WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT id FROM shop.people;"),
    ],
)
def test_tables_and_functions_that_compute_pass(dialect, query):
    check_select(query, dialect)


@pytest.mark.parametrize("dialect", [own for own in OWN if own != "sqlite"])
def test_our_own_queries_pass(dialect):
    frame = pd.DataFrame({"age": [20, 30, 40] * 20, "town": ["a", "b", "it's"] * 20})
    encoder = TableEncoder().fit(frame)
    coef = np.arange(1.0, len(encoder.terms_) + 1)
    score = Formula((Part(1.0, "sigmoid", 0.5, coef),))
    check_select(to_sql(encoder, score, table="people", dialect=dialect), dialect)


ACTING = {
    "bigquery": """
        SELECT * FROM EXTERNAL_QUERY('shop', 'DELETE FROM people')
        WITH a AS (SELECT * FROM `external_query`('s', 'x')) SELECT * FROM a
        SELECT * FROM ML.GENERATE_TEXT(MODEL m, (SELECT 1))
        SELECT * FROM ML.PREDICT(MODEL m, TABLE t)
        SELECT AI.GENERATE('x', connection_id => 'c')
        SELECT * FROM AI.SEARCH('x')
        SELECT * FROM VECTOR_SEARCH(TABLE t, 'a', TABLE u)
        SELECT project.folder.remote('x')
        SELECT `project.folder.remote`('x')
        SELECT SAFE.remote(a) FROM people
        SELECT OBJ.GET_ACCESS_URL(r, 'rw')
    """,
    "snowflake": """
        SELECT SYSTEM$CANCEL_ALL_QUERIES(1)
        SELECT SNOWFLAKE.CORTEX.COMPLETE('m', 'x')
        SELECT AI_COMPLETE('m', 'x')
        SELECT AI_AGG(a, 'x') FROM people
        SELECT s.NEXTVAL
        SELECT * FROM TABLE(GETNEXTVAL(s))
        SELECT * FROM TABLE(my_procedure())
        SELECT my.function('x')
        SELECT GET_PRESIGNED_URL(@s, 'f')
    """,
    "databricks": """
        SELECT TRANSFORM(age) USING 'a command' AS (a) FROM people
        SELECT MAP(a) USING 'sh' AS b FROM people
        SELECT * FROM remote_query('shop', query => 'DELETE FROM people')
        SELECT (SELECT reflect('java.lang.System', 'exit', 1)) FROM people
        SELECT ai_query('e', 'x')
        SELECT ai_gen('x')
        SELECT secret('a', 'b')
        SELECT * FROM read_files('s3://x')
        SELECT * FROM IDENTIFIER('remote' || '_query')('c')
        SELECT system.ai.python_exec('import os')
        SELECT /*+ BROADCAST(people) */ * FROM people
    """,
    "trino": """
        SELECT * FROM TABLE(pg.system.query(query => 'DELETE FROM people'))
        SELECT * FROM TABLE(pg."system".QUERY(query => 'DELETE FROM people'))
        SELECT * FROM TABLE(es.system.raw_query(schema => 's', query => '{}'))
        SELECT * FROM TABLE(pg.system.procedure(query => 'EXECUTE p'))
        SELECT ai.ai.ai_gen('x')
        SELECT pg.system.coalesce('x')
        WITH FUNCTION f() RETURNS int RETURN 1 SELECT f()
    """,
    "mysql": """
        SELECT LOAD_FILE('/a/file')
        SELECT sys_exec('id')
        SELECT sleep(100000)
        SELECT benchmark(1e18, md5('a'))
        SELECT get_lock('a', 1)
        SELECT * FROM people FOR UPDATE
        SELECT * FROM people LOCK IN SHARE MODE
        SELECT /*+ SET_VAR(sql_log_bin=0) */ 1
        SELECT 1 INTO OUTFILE '/a/file'
    """,
    "sqlite": """
        SELECT load_extension('x')
        SELECT writefile('a', 'b')
    """,
    "postgres": """
        SELECT lo_from_bytea(0, 'x')
        SELECT "lo_put"(1, 0, 'x')
        SELECT pg_catalog.lo_export(1, '/a/file')
        SELECT pg_notify('a', 'x')
        SELECT pg_file_write('/a/file', 'x', false)
        SELECT pg_read_file('/a/file')
        SELECT * FROM pg_ls_dir('/')
        SELECT pg_sleep(1000)
        SELECT pg_advisory_lock(1)
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        SELECT * FROM pg_create_physical_replication_slot('a')
        SELECT dblink_exec('host=shop', 'DELETE FROM people')
        SELECT * FROM dblink('host=shop', 'DELETE FROM people') AS t(a int)
        SELECT query_to_xml('DELETE FROM people RETURNING 1', true, false, '')
        SELECT set_config('transaction_read_only', 'off', false)
        SELECT nextval('s')
        SELECT id FROM people WHERE EXISTS (SELECT 1 WHERE lo_unlink(1) = 1)
        SELECT * FROM people FOR UPDATE
        SELECT (people).own FROM people ORDER BY shop.own(1)
        SELECT ('/a/file'::text).pg_read_file
        SELECT (SELECT 'host=shop'::text).dblink_connect
        SELECT (array[1])[1].pg_sleep
        SELECT (p.age)."pg_sleep" FROM people p
        SELECT a OPERATOR(shop.+) b FROM people
    """,
}


@pytest.mark.parametrize("dialect", ACTING)
def test_what_may_do_more_than_compute_is_refused(dialect):
    for query in ACTING[dialect].strip().splitlines():
        with pytest.raises(TableError, match="query should be one SELECT"):
            check_select(query.strip(), dialect)


def test_the_message_says_what_and_what_to_do():
    with pytest.raises(TableError, match=re.escape(
        "got 'shop.risk', which is not known to. Leave it out, or make a view that has it and name "
        "that, or pass a table of ibis."
    )):  # fmt: skip
        check_select("SELECT shop.risk(age) FROM people", "bigquery")


@pytest.mark.parametrize("comment", ["/*!50000 INTO OUTFILE 'a' */", "-- */ INTO OUTFILE 'a'"])
def test_what_is_sent_has_no_comment_that_a_server_runs(comment):
    assert check_select(f"SELECT 1 {comment}", "mysql") == "SELECT 1"


def test_errors_of_the_parser_do_not_steer_a_terminal():
    with pytest.raises(TableError) as caught:
        check_select("SELECT (\x1b[2J FROM people", "postgres")
    assert "\x1b" not in str(caught.value)
