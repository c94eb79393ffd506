"""Holds in PostgreSQL: the store, and the SQL of the table."""

from __future__ import annotations

from redisson_py._stores.postgres.sql import schema_sql
from redisson_py._stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "schema_sql"]
