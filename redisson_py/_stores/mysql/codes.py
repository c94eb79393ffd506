"""What each error number of MySQL and MariaDB means for a query of ours, as data.

Each number that is not here is "wrong": most of them are about SQL.

Sources. "M": the text of that number in MariaDB's errmsg-utf8.txt, with its name behind `ER_`.
"8": the same in messages_to_clients.txt of MySQL 8, which alone has it. "C": errmsg.h of the client
libraries, and what asyncmy raises by itself.
"""

from __future__ import annotations

from typing import Final

from redisson_py._stores.verdicts import Entry, Verdict

CODES: Final = {
    # Undone by the server, which will take it again.
    1020: Entry("later", "M CHECKREAD: another transaction changed the row"),
    1205: Entry("later", "M LOCK_WAIT_TIMEOUT: a row or a table is locked, as by an ALTER TABLE"),
    1206: Entry("later", "M LOCK_TABLE_FULL: too many locks"),
    1213: Entry("later", "M LOCK_DEADLOCK"),
    1297: Entry("later", "M GET_TEMPORARY_ERRMSG"),
    1412: Entry("later", "M TABLE_DEF_CHANGED: please retry transaction"),
    1964: Entry("later", "M PRIOR_COMMIT_FAILED: an earlier commit did, on which this one depends"),
    3058: Entry("later", "8 USER_LOCK_DEADLOCK"),
    3101: Entry("later", "8 TRANSACTION_ROLLBACK_DURING_COMMIT: another node was faster"),
    3572: Entry("later", "8 LOCK_NOWAIT"),
    # Too little of something, which others may give back.
    1015: Entry("later", "M CANT_LOCK: InnoDB starts, or its files are locked"),
    1016: Entry("later", "M CANT_OPEN_FILE: too many are open"),
    1021: Entry("later", "M DISK_FULL: waiting for someone to free some space"),
    1023: Entry("later", "M ERROR_ON_CLOSE: of a file"),
    1024: Entry("later", "M ERROR_ON_READ: of a file"),
    1026: Entry("later", "M ERROR_ON_WRITE: of a file, as of the binary log on a full disk"),
    1028: Entry("later", "M FILSORT_ABORT"),
    1030: Entry("later", "M GET_ERRNO: of the storage engine, as of a full disk"),
    1037: Entry("later", "M OUTOFMEMORY"),
    1038: Entry("later", "M OUT_OF_SORTMEMORY"),
    1040: Entry("later", "M CON_COUNT_ERROR: too many connections"),
    1041: Entry("later", "M OUT_OF_RESOURCES: out of memory"),
    1042: Entry("later", "M BAD_HOST_ERROR: the DNS does not answer the server"),
    1114: Entry("later", "M RECORD_FILE_FULL: no room in the tablespace"),
    1129: Entry("later", "M HOST_IS_BLOCKED: until an operator flushes the hosts"),
    1135: Entry("later", "M CANT_CREATE_THREAD"),
    1203: Entry("later", "M TOO_MANY_USER_CONNECTIONS"),
    1226: Entry("later", "M USER_LIMIT_REACHED: of connections, or of queries in an hour"),
    1257: Entry("later", "M ZLIB_Z_MEM_ERROR"),
    1296: Entry("later", "M GET_ERRMSG: of the storage engine"),
    1637: Entry("later", "M TOO_MANY_CONCURRENT_TRXS"),
    1878: Entry("later", "M TEMP_FILE_WRITE_FAILURE"),
    3100: Entry("later", "8 RUN_HOOK_ERROR: group replication did not take the commit"),
    3168: Entry("later", "8 SERVER_ISNT_AVAILABLE"),
    3170: Entry("later", "8 CAPACITY_EXCEEDED: of memory"),
    # Another server.
    1036: Entry("elsewhere", "M OPEN_AS_READONLY: innodb_read_only"),
    1047: Entry("elsewhere", "M UNKNOWN_COM_ERROR: a node that left its Galera cluster"),
    1207: Entry("elsewhere", "M READ_ONLY_TRANSACTION"),
    1290: Entry("elsewhere", "M OPTION_PREVENTS_STATEMENT: --read-only"),
    1792: Entry("elsewhere", "M CANT_EXECUTE_IN_READ_ONLY_TRANSACTION"),
    1836: Entry("elsewhere", "M READ_ONLY_MODE"),
    3032: Entry("elsewhere", "M SERVER_OFFLINE_MODE"),
    # No answer.
    1043: Entry("lost", "M HANDSHAKE_ERROR"),
    1053: Entry("lost", "M SERVER_SHUTDOWN"),
    1077: Entry("lost", "M NORMAL_SHUTDOWN"),
    1079: Entry("lost", "M SHUTDOWN_COMPLETE"),
    1080: Entry("lost", "M FORCING_CLOSE"),
    1152: Entry("lost", "M ABORTING_CONNECTION"),
    1154: Entry("lost", "M NET_READ_ERROR_FROM_PIPE"),
    1155: Entry("lost", "M NET_FCNTL_ERROR"),
    1156: Entry("lost", "M NET_PACKETS_OUT_OF_ORDER"),
    1157: Entry("lost", "M NET_UNCOMPRESS_ERROR"),
    1158: Entry("lost", "M NET_READ_ERROR"),
    1159: Entry("lost", "M NET_READ_INTERRUPTED"),
    1160: Entry("lost", "M NET_ERROR_ON_WRITE"),
    1161: Entry("lost", "M NET_WRITE_INTERRUPTED"),
    1180: Entry("lost", "M ERROR_DURING_COMMIT"),
    1181: Entry("lost", "M ERROR_DURING_ROLLBACK"),
    1184: Entry("lost", "M NEW_ABORTING_CONNECTION"),
    1317: Entry("lost", "M QUERY_INTERRUPTED: between two statements, or in one"),
    1927: Entry("lost", "M CONNECTION_KILLED"),
    1969: Entry("lost", "M STATEMENT_TIMEOUT: max_statement_time"),
    3024: Entry("lost", "8 QUERY_TIMEOUT: max_execution_time"),
    3169: Entry("lost", "8 SESSION_WAS_KILLED"),
    4031: Entry("lost", "8 CLIENT_INTERACTION_TIMEOUT"),
    2002: Entry("lost", "C CR_CONNECTION_ERROR"),
    2003: Entry("lost", "C CR_CONN_HOST_ERROR"),
    2005: Entry("lost", "C CR_UNKNOWN_HOST"),
    2013: Entry("lost", "C CR_SERVER_LOST"),
    2014: Entry("lost", "C CR_COMMANDS_OUT_OF_SYNC: an answer to something else"),
    2027: Entry("lost", "C CR_MALFORMED_PACKET"),
    # What looks as if it could pass, and does not.
    1095: Entry("wrong", "M KILL_DENIED_ERROR"),
    1153: Entry("wrong", "M NET_PACKET_TOO_LARGE: max_allowed_packet"),
    1197: Entry("wrong", "M TRANS_CACHE_FULL: max_binlog_cache_size"),
    1301: Entry("wrong", "M WARN_ALLOWED_PACKET_OVERFLOWED"),
}

#: By the driver: the connection was gone before the query was written (C CR_SERVER_GONE_ERROR).
NOT_WRITTEN: Final = 2006


def verdict_of(code: int) -> Verdict:
    """Return what a number means."""
    entry = CODES.get(code)
    return "wrong" if entry is None else entry.verdict
