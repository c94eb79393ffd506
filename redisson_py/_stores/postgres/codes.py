"""What each SQLSTATE of PostgreSQL means for a request of ours, as data.

Sources. "A": Appendix A of PostgreSQL's manual, which says that a code that is not known has the
meaning of its class: so the classes here decide for all codes that are not named. A file name is
one of PostgreSQL's own source: what raises the code there.
"""

from __future__ import annotations

from typing import Final

from redisson_py._stores.verdicts import Entry, Verdict

CLASSES: Final = {
    "03": Entry("wrong", "A: SQL Statement Not Yet Complete"),
    "08": Entry("lost", "A: Connection Exception"),
    "09": Entry("wrong", "A: Triggered Action Exception"),
    "0A": Entry("wrong", "A: Feature Not Supported"),
    "0B": Entry("wrong", "A: Invalid Transaction Initiation"),
    "0F": Entry("wrong", "A: Locator Exception"),
    "0L": Entry("wrong", "A: Invalid Grantor"),
    "0P": Entry("wrong", "A: Invalid Role Specification"),
    "0Z": Entry("wrong", "A: Diagnostics Exception"),
    "10": Entry("wrong", "A: XQuery Error"),
    "20": Entry("wrong", "A: Case Not Found"),
    "21": Entry("wrong", "A: Cardinality Violation"),
    "22": Entry("wrong", "A: Data Exception"),
    "23": Entry("wrong", "A: Integrity Constraint Violation"),
    "24": Entry("wrong", "A: Invalid Cursor State"),
    "25": Entry("wrong", "A: Invalid Transaction State"),
    "26": Entry("wrong", "A: Invalid SQL Statement Name"),
    "27": Entry("wrong", "A: Triggered Data Change Violation"),
    "28": Entry("wrong", "A: Invalid Authorization Specification"),
    "2B": Entry("wrong", "A: Dependent Privilege Descriptors Still Exist"),
    "2D": Entry("wrong", "A: Invalid Transaction Termination"),
    "2F": Entry("wrong", "A: SQL Routine Exception"),
    "34": Entry("wrong", "A: Invalid Cursor Name"),
    "38": Entry("wrong", "A: External Routine Exception"),
    "39": Entry("wrong", "A: External Routine Invocation Exception"),
    "3B": Entry("wrong", "A: Savepoint Exception"),
    "3D": Entry("wrong", "A: Invalid Catalog Name"),
    "3F": Entry("wrong", "A: Invalid Schema Name"),
    "40": Entry("later", "A: Transaction Rollback"),
    "42": Entry("wrong", "A: Syntax Error or Access Rule Violation"),
    "44": Entry("wrong", "A: WITH CHECK OPTION Violation"),
    "53": Entry("later", "A: Insufficient Resources: disk full, out of memory, connections"),
    "54": Entry("wrong", "A: Program Limit Exceeded"),
    "55": Entry("later", "A: Object Not In Prerequisite State"),
    "57": Entry("later", "A: Operator Intervention"),
    "58": Entry("later", "A: System Error, external to PostgreSQL itself: I/O errors"),
    "72": Entry("later", "A: Snapshot Failure"),
    "F0": Entry("later", "A: Configuration File Error"),
    "HV": Entry("wrong", "A: Foreign Data Wrapper Error"),
    "P0": Entry("wrong", "A: PL/pgSQL Error, as of a trigger of the user's"),
    "XX": Entry("later", "A: Internal Error; heapam.c: tuple concurrently updated"),
}

#: Codes that mean something else than their class.
CODES: Final = {
    "25006": Entry("elsewhere", "A: read_only_sql_transaction; a server that became a standby"),
    "25P03": Entry("lost", "postgres.c: FATAL, idle_in_transaction_session_timeout"),
    "25P04": Entry("lost", "postgres.c: FATAL, transaction_timeout"),
    "40003": Entry("lost", "A: statement_completion_unknown"),
    "54000": Entry("later", "async.c: the NOTIFY queue is full; varsup.c: no transaction ids left"),
    "55P02": Entry("wrong", "guc.c: a parameter that cannot be changed now"),
    "55P04": Entry("wrong", "enum.c: a new value of an enum"),
    "57P01": Entry("lost", "postgres.c: FATAL, the administrator ends the connection"),
    "57P02": Entry("lost", "postgres.c: FATAL, another process of the server has crashed"),
    "57P03": Entry("lost", "backend_startup.c: FATAL, the server starts, stops or recovers"),
    "57P04": Entry("wrong", "postgres.c: FATAL, the database was dropped"),
    "57P05": Entry("lost", "postgres.c: FATAL, idle_session_timeout"),
    "XX001": Entry("wrong", "A: data_corrupted: of a page on the disk, for good"),
    "XX002": Entry("wrong", "A: index_corrupted: for good"),
}


def verdict_of(sqlstate: str) -> Verdict:
    """Return what a code means; of a class that nobody has described yet, that it is wrong."""
    entry = CODES.get(sqlstate) or CLASSES.get(sqlstate[:2])
    return "wrong" if entry is None else entry.verdict
