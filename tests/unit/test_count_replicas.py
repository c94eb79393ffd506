"""How many replicas can confirm, by what the master says."""

from __future__ import annotations

import pytest

from redisson_py._topology.confirming import count_replicas

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
