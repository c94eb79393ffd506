"""Which names of a statement PostgreSQL looks up along the search_path."""

from __future__ import annotations

from typing import Any

from pglast import parse_sql
from pglast.enums import A_Expr_Kind
from pglast.visitors import Visitor


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
