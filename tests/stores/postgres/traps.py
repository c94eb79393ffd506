"""What a hostile role can put in the way of bare names: everything that fits them, in a schema.

A trap writes `TRAP` into the log of the server when it runs; rolling back does not undo that.
"""

from __future__ import annotations

from collections.abc import Iterable

from redisson_py._stores.postgres import sql

#: The types of our statements, and what PostgreSQL makes of literals in them. `sly` is the
#: intruder's own: it alone may have casts to and from the types of PostgreSQL.
_TYPES = (
    *("bool", "bytea", "float8", "int2", "int4", "int8", "interval", "jsonb", "name", "numeric"),
    *("oid", "regclass", "text", "timestamptz"),
)

_SET = """
CREATE FUNCTION {schema}.sprung(what pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: %', what; RETURN true; END $f$;
CREATE TYPE {schema}.sly AS (what pg_catalog.text);
CREATE FUNCTION {schema}.to_sly(pg_catalog.text) RETURNS {schema}.sly LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: cast to sly'; RETURN ROW($1); END $f$;
CREATE FUNCTION {schema}.from_sly({schema}.sly) RETURNS pg_catalog.text LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: cast from sly'; RETURN $1.what; END $f$;
CREATE CAST (pg_catalog.text AS {schema}.sly) WITH FUNCTION {schema}.to_sly AS IMPLICIT;
CREATE CAST ({schema}.sly AS pg_catalog.text) WITH FUNCTION {schema}.from_sly AS IMPLICIT;
DO $do$
DECLARE
    body CONSTANT text := 'LANGUAGE plpgsql AS $f$ BEGIN RAISE LOG ''TRAP: %% %%'', %L, %L;'
        ' RETURN NULL; END $f$';
    types text[] := ARRAY[{types}] || '{schema}.sly'::text;
    a text; b text; own record; called text; result text; count int := 0;
BEGIN
    FOREACH called IN ARRAY ARRAY[{operators}] LOOP
        FOREACH a IN ARRAY types LOOP
            FOREACH b IN ARRAY types LOOP
                SELECT coalesce(max(oprresult::regtype::text),
                    CASE WHEN called ~ '[=<>?]' THEN 'bool' ELSE a END) INTO result
                FROM pg_operator WHERE oprname = called AND oprleft = to_regtype(a)
                    AND oprright = to_regtype(b) AND oprnamespace = 'pg_catalog'::regnamespace;
                count := count + 1;
                EXECUTE format('CREATE FUNCTION {schema}.trap_%s(%s, %s) RETURNS %s ',
                    count, a, b, result) || format(body, called, a || ' ' || b);
                EXECUTE format('CREATE OPERATOR {schema}.%s (FUNCTION = {schema}.trap_%s,'
                    ' LEFTARG = %s, RIGHTARG = %s)', called, count, a, b);
            END LOOP;
        END LOOP;
    END LOOP;
    FOREACH called IN ARRAY ARRAY[{functions}] LOOP
        FOR own IN SELECT oidvectortypes(proargtypes) AS arguments,
            prorettype::regtype::text AS result FROM pg_proc
            WHERE proname = called AND pronamespace = 'pg_catalog'::regnamespace LOOP
            result := CASE own.result WHEN 'void' THEN 'bool' ELSE own.result END;
            BEGIN
                EXECUTE format('CREATE FUNCTION {schema}.%I(%s) RETURNS %s ',
                    called, own.arguments, result) || format(body, called, 'itself');
            EXCEPTION WHEN feature_not_supported THEN
                -- PL/pgSQL takes no "any". The traps below take all that is meant by it here.
                NULL;
            END;
        END LOOP;
        FOREACH a IN ARRAY types LOOP
            FOR b IN SELECT '' UNION ALL SELECT ', ' || each FROM unnest(types) AS each LOOP
                CONTINUE WHEN to_regprocedure(
                    format('{schema}.%I(%s%s)', called, a, b)) IS NOT NULL;
                EXECUTE format('CREATE FUNCTION {schema}.%I(%s%s) RETURNS %s ', called, a, b,
                    CASE WHEN result ~ 'any|record' THEN 'bool' ELSE result END)
                    || format(body, called, a || b);
            END LOOP;
        END LOOP;
    END LOOP;
    FOREACH a IN ARRAY ARRAY[{types}] LOOP
        EXECUTE format('CREATE DOMAIN {schema}.%I AS pg_catalog.%I CHECK ({schema}.sprung(%L))',
            a, a, 'type ' || a);
    END LOOP;
END $do$
"""

#: A table with our name that runs code of its owner's as whoever uses it.
_TABLE = """
{table}
GRANT ALL ON {schema}.redisson_py_locks TO PUBLIC;
ALTER TABLE {schema}.redisson_py_locks ALTER owner SET DEFAULT {schema}.sprung('default')::text;
CREATE FUNCTION {schema}.on_write() RETURNS trigger LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: trigger'; RETURN NEW; END $f$;
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON {schema}.redisson_py_locks
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.on_write();
CREATE POLICY trap ON {schema}.redisson_py_locks USING ({schema}.sprung('policy'));
ALTER TABLE {schema}.redisson_py_locks ENABLE ROW LEVEL SECURITY;
"""


def traps(schema: str, operators: Iterable[str], functions: Iterable[str]) -> str:
    """Return the SQL that sets traps in a schema: types, casts, operators, functions.

    Operators and functions take every mix of two types, and functions also what PostgreSQL's own
    take.
    """
    return _SET.format(
        schema=schema,
        types=_array(_TYPES),
        operators=_array(operators),
        functions=_array(functions),
    )


def trap_table(schema: str) -> str:
    """Return the SQL that sets a trap in the place of a table."""
    return _TABLE.format(schema=schema, table=sql.in_schema(sql.schema_sql(), schema))


def _array(values: Iterable[str]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(values))
