"""Parts of every statement: PostgreSQL's own operators, and the moment of the statement.

Each expression with two operators has parentheses: written so, they all bind equally.
"""

from __future__ import annotations

from typing import Final

EQ, NE, LT, LE, GT = (f"OPERATOR(pg_catalog.{each})" for each in ("=", "<>", "<", "<=", ">"))
PLUS, MINUS, TIMES = (f"OPERATOR(pg_catalog.{each})" for each in "+-*")
CONCAT, HAS_KEY, GET = (f"OPERATOR(pg_catalog.{each})" for each in ("||", "?", "->>"))

NOW: Final = "pg_catalog.statement_timestamp()"
EPOCH: Final = f"extract(epoch FROM {NOW})"


def microseconds(epoch: str) -> str:
    """Return a moment in whole microseconds."""
    return f"pg_catalog.floor({epoch} {TIMES} 1000000)::pg_catalog.int8"
