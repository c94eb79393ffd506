"""What servers say is read as it is meant: errors, and how many replicas can confirm."""

from __future__ import annotations

import pytest

from redisson_py._redis.error_replies import TABLE, Meaning, Row, is_try_again, meaning_of
from redisson_py._redis.topology.confirming import count_replicas

SAID = {
    "LOADING Redis is loading the dataset in memory": Meaning.LATER,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL": Meaning.LATER,
    "BUSYGROUP Consumer Group name already exists": Meaning.KEY,
    "MISCONF Errors writing to the AOF file: No space left on device": Meaning.LATER,
    "ERR Error running script (call to f_a1): @user_script:34: @user_script: 34: -MISCONF Redis is"
    " configured to save RDB snapshots": Meaning.LATER,
    "NOREPLICAS Not enough good replicas to write.": Meaning.LATER,
    "ERR max number of clients reached": Meaning.LATER,
    "OOM command not allowed when used memory > 'maxmemory'.": Meaning.FULL,
    "READONLY You can't write against a read only replica.": Meaning.ELSEWHERE,
    "MOVED 3999 127.0.0.1:6381": Meaning.REDIRECT,
    "TRYAGAIN Multiple keys request during rehashing of slot": Meaning.MOVING,
    "ERR Script attempted to access a non local key in a cluster node": Meaning.MOVING,
    "NOPERM No permissions to access a key": Meaning.KEY,
    "NOPERM this user has no permissions to access one of the keys used as arguments": Meaning.KEY,
    "NOPERM User app has no permissions to run the 'evalsha' command": Meaning.CALL,
    "ERR ACL failure in script: No permissions to access a key": Meaning.KEY,
    "ERR ACL failure in script: User app has no permissions to run the 'del' command": Meaning.CALL,
    "ERR The user executing the script can't run this command or subcommand": Meaning.CALL,
    "@user_script: 41: The user executing the script can't run this command or"
    " subcommand": Meaning.CALL,
    "@user_script: 41: The user executing the script can't publish to the channel mentioned in the"
    " command": Meaning.CALL,
    "@user_script: 41: The user executing the script can't access at least one of the keys"
    " mentioned in the command arguments": Meaning.KEY,
    "@user_script: 41: -READONLY You can't write against a read only replica.": Meaning.ELSEWHERE,
    "@user_script: 41: -OOM command not allowed when used memory > 'maxmemory'.": Meaning.FULL,
    "NOSCRIPT No matching script. Please use EVAL.": Meaning.NO_SCRIPT,
    "WRONGTYPE Operation against a key holding the wrong kind of value": Meaning.KEY,
    "ERR this is not LOADING": Meaning.KEY,
    "": Meaning.KEY,
}


@pytest.mark.parametrize("text", SAID)
def test_what_servers_say(text: str) -> None:
    assert meaning_of(text) is SAID[text]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.code} {row.words}".strip())
def test_every_row_is_reached_and_has_a_source(row: Row) -> None:
    assert meaning_of(f"{row.code} {row.words} ") is row.meaning
    assert ".c" in row.source


def test_what_is_final_is_not_asked_again() -> None:
    repeated = {row.meaning for row in TABLE if is_try_again(f"{row.code} {row.words} ")}
    assert repeated == {Meaning.LATER, Meaning.ELSEWHERE, Meaning.MOVING}


HEAD = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
ONE = "slave0:ip=127.0.0.1,port=1,state=online,offset=14,lag=0,type=replica\r\n"
NEW = "slave1:ip=127.0.0.1,port=2,state=online,offset=0,lag=0\r\n"
SYNCING = "slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n"


@pytest.mark.parametrize(
    ("replicas", "followed", "count"),
    [
        ("", 0, 0),
        (ONE, 14, 1),
        (ONE + NEW, 14, 1),
        (ONE + NEW.replace("=0,", "=9,"), 14, 2),
        (ONE + SYNCING, 14, 1),
        (NEW, 14, 0),
        # Nothing was written yet, so a replica may have spoken all the same.
        (NEW, 0, 1),
        (SYNCING, 0, 0),
    ],
)
def test_a_replica_counts_from_its_first_word(replicas: str, followed: int, count: int) -> None:
    text = f"{HEAD}{replicas}master_failover_state:no-failover\r\nmaster_repl_offset:{followed}\r\n"
    assert count_replicas(text) == count
