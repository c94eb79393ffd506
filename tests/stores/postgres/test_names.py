"""Every name in our SQL has its schema: PostgreSQL looks none of them up along the search_path."""

from __future__ import annotations

from typing import Any

import pytest
from pglast import parse_sql
from pglast.enums import A_Expr_Kind
from pglast.visitors import Visitor

from redisson_py._stores.postgres import once, schema_sql, shared_sql, sql
from redisson_py._stores.postgres.table import in_schema

#: Each looks a name up.
BARE = [
    "SELECT 1 = 1",
    "SELECT 1 IN (1)",
    "SELECT 1 IN (SELECT 1)",
    "SELECT 1 = ANY (SELECT 1)",
    "SELECT 1 BETWEEN 1 AND 2",
    "SELECT 1 IS DISTINCT FROM 2",
    "SELECT NULLIF(1, 2)",
    "SELECT CASE 1 WHEN 1 THEN 2 END",
    "SELECT now()",
    "SELECT ARRAY[1]::text[]",
    "SELECT 'a' COLLATE \"C\"",
    "UPDATE redisson_py_locks SET owner = NULL",
    "SELECT FROM a.b JOIN a.c USING (d)",
    "SELECT FROM a.b ORDER BY c USING <",
    "COMMENT ON COLUMN b.c IS 'd'",
]
QUALIFIED = [
    "SELECT 1 OPERATOR(pg_catalog.=) 1, extract(epoch FROM pg_catalog.now()), NOT false",
    "SELECT CASE WHEN coalesce(true, false) IS NOT TRUE THEN greatest(1, 2) END",
    "WITH a AS (SELECT 1::pg_catalog.text) SELECT FROM a ORDER BY 1",
]
STATEMENTS = {
    f"{prefix}{name}": text
    for prefix, module in (("", sql), ("SHARED_", shared_sql), ("ONCE_", once))
    for name, text in vars(module).items()
    if name.isupper()
    and not name.startswith("_")
    and isinstance(text, str)
    and " " in text
    and not text.startswith("CREATE")
}


def unqualified(statement: str) -> list[str]:
    """Return the names without a schema in a statement, and what stands for one.

    `IN`, `BETWEEN`, `IS DISTINCT FROM`, `NULLIF`, `CASE x WHEN` and `JOIN ... USING` look up an
    operator by its bare name. Sorting and grouping do not: they use what belongs to the type.
    """
    visitor = _Unqualified()
    visitor(parse_sql(statement))
    tables = [f"table {name}" for name in visitor.tables if name not in visitor.own]
    return visitor.found + tables


def names(statement: str) -> tuple[set[str], set[str]]:
    """Return the operators and the functions of a statement, without their schemas."""
    visitor = _Unqualified()
    visitor(parse_sql(statement))
    return visitor.operators, visitor.functions


class _Unqualified(Visitor):
    def __init__(self) -> None:
        self.found: list[str] = []
        self.operators: set[str] = set()
        self.functions: set[str] = set()
        #: Tables without a schema, and those that a WITH makes.
        self.tables: list[str] = []
        self.own: set[str] = set()

    def visit_CommonTableExpr(self, _ancestors: Any, node: Any) -> None:
        self.own.add(node.ctename)

    def visit_RangeVar(self, _ancestors: Any, node: Any) -> None:
        if not node.schemaname:
            self.tables.append(node.relname)

    def visit_A_Expr(self, _ancestors: Any, node: Any) -> None:
        self.operators.add(node.name[-1].sval)
        if len(node.name) < 2 or node.kind not in (A_Expr_Kind.AEXPR_OP, A_Expr_Kind.AEXPR_OP_ANY):
            self.found.append(f"operator {node.name[-1].sval} ({node.kind.name})")

    def visit_SubLink(self, _ancestors: Any, node: Any) -> None:
        if node.testexpr is not None and len(node.operName or ()) < 2:
            self.found.append("operator of a subquery")

    def visit_FuncCall(self, _ancestors: Any, node: Any) -> None:
        self.functions.add(node.funcname[-1].sval)
        if len(node.funcname) < 2:
            self.found.append(f"function {node.funcname[0].sval}")

    def visit_TypeName(self, _ancestors: Any, node: Any) -> None:
        if len(node.names) < 2:
            self.found.append(f"type {node.names[0].sval}")

    def visit_SortBy(self, _ancestors: Any, node: Any) -> None:
        if node.useOp is not None and len(node.useOp) < 2:
            self.found.append("operator of ORDER BY")

    def visit_JoinExpr(self, _ancestors: Any, node: Any) -> None:
        if node.usingClause or node.isNatural:
            self.found.append("operator of a join")

    def visit_CaseExpr(self, _ancestors: Any, node: Any) -> None:
        if node.arg is not None:
            self.found.append("operator of CASE")

    def visit_CollateClause(self, _ancestors: Any, node: Any) -> None:
        if len(node.collname) < 2:
            self.found.append(f"collation {node.collname[0].sval}")

    def visit_IndexElem(self, _ancestors: Any, node: Any) -> None:
        if node.opclass is not None and len(node.opclass) < 2:
            self.found.append("operator class")

    def visit_CommentStmt(self, _ancestors: Any, node: Any) -> None:
        path = [each.sval for each in node.object]
        if len(path) < (3 if "COLUMN" in node.objtype.name else 2):
            self.found.append(f"commented {path}")


def test_all_statements_are_looked_at() -> None:
    assert {"ASK", "GIVE_BACK", "GIVE_BACK_UNSURE", "RENEW", "GUARD", "LOCATE"} <= {*STATEMENTS}
    assert {"SHARED_ASK", "SHARED_CHANGE", "SHARED_RENEW", "SHARED_LOOK"} <= {*STATEMENTS}
    assert {"ONCE_COMPLETE", "ONCE_FIND", "ONCE_FORGET", "ONCE_LOOK"} <= {*STATEMENTS}


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_name_of_a_statement_has_its_schema(name: str) -> None:
    located = in_schema(STATEMENTS[name], "locks")
    assert unqualified(located) == []
    assert unqualified(sql.without_bell(located)) == []


def test_the_schema_has_bare_names_only_for_its_table() -> None:
    """Who runs it by hand chooses where the table is."""
    assert unqualified(in_schema(schema_sql(), "locks")) == []
    assert {each.split()[0] for each in unqualified(schema_sql())} == {"table", "commented"}


def test_a_schema_may_have_any_name() -> None:
    statement = in_schema(sql.LOOK, 'a".b')
    assert 'FROM "a"".b".redisson_py_locks' in statement
    assert unqualified(statement) == []


def test_bare_names_are_found() -> None:
    assert [each for each in BARE if not unqualified(each)] == []
    assert [each for each in QUALIFIED if unqualified(each)] == []
