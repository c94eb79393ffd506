"""What clients sent before there was a client queue, as it was then: they run beside newer ones."""

from __future__ import annotations

#: id, name, owner, lease, tokens, waits
ASK = """
WITH granted AS (
    UPDATE redisson_py_locks AS t
    SET owner = $3::text,
        token = greatest(t.token + t.tokens, floor(extract(epoch FROM statement_timestamp()) *
            1000000)::int8),
        tokens = $5::int8, expires = (statement_timestamp() + make_interval(secs => $4::float8))
    WHERE t.id = (
        SELECT id FROM redisson_py_locks
        WHERE id = $1::bytea AND (owner IS NULL OR expires <= statement_timestamp()) AND NOT
            coalesce(refused ? $3::text, false)
        FOR UPDATE SKIP LOCKED)
    RETURNING true AS granted, owner, token, tokens, expires, refused
), inserted AS (
    INSERT INTO redisson_py_locks (id, name, owner, token, tokens, expires)
    SELECT $1::bytea, $2::text, $3::text, floor(extract(epoch FROM statement_timestamp()) *
        1000000)::int8, $5::int8,
        (statement_timestamp() + make_interval(secs => $4::float8))
    WHERE NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM redisson_py_locks WHERE id = $1::bytea)
    ON CONFLICT (id) DO NOTHING
    RETURNING true, owner, token, tokens, expires, refused
), registered AS (
    UPDATE redisson_py_locks AS t
    SET waiting_until = (statement_timestamp() + make_interval(secs => 60.0))
    WHERE $6::bool AND t.id = $1::bytea AND (t.owner = $3::text) IS NOT TRUE
        AND NOT EXISTS (SELECT FROM granted)
        AND coalesce(t.waiting_until < (statement_timestamp() + make_interval(secs => 30.0)), true)
        AND set_config('lock_timeout', '200', true) IS NOT NULL
    RETURNING false, owner, token, tokens, expires, refused
), seen AS (
    SELECT false, owner, token, tokens, expires, refused FROM redisson_py_locks
    WHERE id = $1::bytea AND NOT EXISTS (SELECT FROM granted)
        AND NOT EXISTS (SELECT FROM registered)
)
SELECT granted, owner, token, tokens, extract(epoch FROM expires - statement_timestamp())::float8
    AS remaining, coalesce(refused ? $3::text, false) AS refused
FROM (
    TABLE granted UNION ALL TABLE inserted UNION ALL TABLE registered UNION ALL TABLE seen
) AS answer"""

#: id, channel, owner
GIVE_BACK = """
WITH freed AS (
    UPDATE redisson_py_locks AS t
    SET
owner = NULL, expires = least(t.expires, statement_timestamp()), waiting_until = NULL, refused =
CASE WHEN t.refused IS NOT NULL THEN (
    SELECT jsonb_object_agg(each.key, each.value)
    FROM jsonb_each(t.refused) AS each
    WHERE each.value::float8 > extract(epoch FROM statement_timestamp())::float8) END, freed_by =
        CASE WHEN t.expires > statement_timestamp() THEN t.owner END
    FROM (
SELECT id, owner, expires, waiting_until, freed_by FROM redisson_py_locks WHERE id = $1::bytea
    AND owner = $3::text FOR NO KEY UPDATE) AS before
    WHERE t.id = before.id
    RETURNING before.expires, before.waiting_until)
SELECT expires > statement_timestamp() AS held, coalesce(waiting_until > statement_timestamp(),
    false) AS wanted,
    CASE WHEN waiting_until > statement_timestamp() THEN pg_notify($2::text, '') END FROM freed
UNION ALL
SELECT true, false, NULL FROM redisson_py_locks
WHERE id = $1::bytea AND freed_by = $3::text AND NOT EXISTS (SELECT FROM freed)"""

#: id, channel, owner, name
GIVE_BACK_UNSURE = """
WITH before AS (
SELECT id, owner, expires, waiting_until, freed_by FROM redisson_py_locks WHERE id = $1::bytea
    FOR NO KEY UPDATE), freed AS (
    INSERT INTO redisson_py_locks AS t (id, name, owner, token, tokens, expires, refused)
    VALUES ($1::bytea, $4::text, NULL, 0, 0, statement_timestamp(),
        jsonb_build_object($3::text, extract(epoch FROM statement_timestamp()) + 60.0))
    ON CONFLICT (id) DO UPDATE SET
        owner = CASE WHEN (t.owner <> $3::text AND t.expires > statement_timestamp()) THEN
            t.owner END,
        expires = CASE WHEN (t.owner <> $3::text AND t.expires > statement_timestamp()) THEN
            t.expires ELSE statement_timestamp() END,
        waiting_until = CASE WHEN (t.owner <> $3::text AND t.expires > statement_timestamp())
            THEN t.waiting_until END,
        freed_by = CASE WHEN (t.owner = $3::text AND t.expires > statement_timestamp()) THEN
            t.owner ELSE t.freed_by END,
        refused = coalesce(
CASE WHEN t.refused IS NOT NULL THEN (
    SELECT jsonb_object_agg(each.key, each.value)
    FROM jsonb_each(t.refused) AS each
    WHERE each.value::float8 > extract(epoch FROM statement_timestamp())::float8) END,
        '{}'::jsonb) || excluded.refused)
SELECT coalesce((t.owner = $3::text AND t.expires > statement_timestamp()) OR t.freed_by =
    $3::text, false) AS held,
    CASE WHEN t.id IS NULL OR t.waiting_until > statement_timestamp() AND (t.owner <> $3::text
        AND t.expires > statement_timestamp()) IS NOT TRUE
        THEN pg_notify($2::text, '') END
FROM (VALUES (1)) AS once LEFT JOIN before AS t ON true"""
