"""Every name in our SQL has its schema: PostgreSQL looks none of them up along the search_path."""

from __future__ import annotations

import pytest

from redisson_py._stores.postgres import schema_sql, sql
from tests.stores.postgres.unqualified import unqualified

STATEMENTS = {
    name: text
    for name, text in vars(sql).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str) and " " in text
}


def test_all_statements_are_looked_at() -> None:
    assert {"ASK", "GIVE_BACK", "GIVE_BACK_UNSURE", "RENEW", "GUARD", "LOCATE"} <= {*STATEMENTS}


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_name_of_a_statement_has_its_schema(name: str) -> None:
    located = sql.in_schema(STATEMENTS[name], "locks")
    assert unqualified(located) == []
    assert unqualified(sql.without_bell(located)) == []


def test_the_schema_has_bare_names_only_for_its_table() -> None:
    """Who runs it by hand chooses where the table is."""
    assert unqualified(sql.in_schema(schema_sql(), "locks")) == []
    assert {each.split()[0] for each in unqualified(schema_sql())} == {"table", "commented"}


def test_a_schema_may_have_any_name() -> None:
    statement = sql.in_schema(sql.LOOK, 'a".b')
    assert 'FROM "a"".b".redisson_py_locks' in statement
    assert unqualified(statement) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 = 1",
        "SELECT 1 IN (1)",
        "SELECT 1 IN (SELECT 1)",
        "SELECT 1 = ANY (SELECT 1)",
        "SELECT 1 BETWEEN 1 AND 2",
        "SELECT 1 IS DISTINCT FROM 2",
        "SELECT NULLIF(1, 2)",
        "SELECT 'a' LIKE 'b'",
        "SELECT - a FROM b.c",
        "SELECT CASE 1 WHEN 1 THEN 2 END",
        "SELECT now()",
        "SELECT 1::bytea",
        "SELECT ARRAY[1]::text[]",
        "SELECT 'a' COLLATE \"C\"",
        "TABLE redisson_py_locks",
        "UPDATE redisson_py_locks SET owner = NULL",
        "SELECT FROM a.b JOIN a.c USING (d)",
        "SELECT FROM a.b NATURAL JOIN a.c",
        "SELECT FROM a.b ORDER BY c USING <",
        "CREATE TABLE a.b (c jsonb)",
        "COMMENT ON COLUMN b.c IS 'd'",
    ],
)
def test_a_bare_name_is_found(statement: str) -> None:
    assert unqualified(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 OPERATOR(pg_catalog.=) 1, extract(epoch FROM pg_catalog.now()), NOT false",
        "SELECT CASE WHEN coalesce(true, false) IS NOT TRUE THEN greatest(1, 2) END",
        "WITH a AS (SELECT 1::pg_catalog.text) SELECT FROM a ORDER BY 1",
        "SELECT 1::bigint, CURRENT_USER",
    ],
)
def test_what_cannot_be_anothers_is_not(statement: str) -> None:
    assert unqualified(statement) == []
