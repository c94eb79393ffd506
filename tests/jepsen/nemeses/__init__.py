"""What strikes the workers, the servers and the network between them: one module a kind."""

from __future__ import annotations

from tests.jepsen.nemeses.clocks import CLOCK_DRIFT, CLOCK_HOUR, CLOCK_STEP
from tests.jepsen.nemeses.commands import (
    BUSY,
    CLIENT_PAUSE,
    FLUSHALL,
    KILL_CONNECTIONS,
    KILL_PUBSUB,
    SCRIPT_FLUSH,
)
from tests.jepsen.nemeses.disk import DISK_FULL
from tests.jepsen.nemeses.links import (
    BLACK_HOLE,
    BLACK_HOLE_DOWN,
    BLACK_HOLE_UP,
    CUT,
    CUT_AFTER,
    DELAY,
    DRIBBLE,
    DUPLICATE,
    HALF_OPEN,
    HOLD,
    REFUSE,
    SWALLOW,
)
from tests.jepsen.nemeses.memory import EVICTION, MEMORY_FULL
from tests.jepsen.nemeses.nemesis import Nemesis
from tests.jepsen.nemeses.network import DROP, DROP_DOWN, DROP_UP, PARTITION, REPLICA_PARTITION
from tests.jepsen.nemeses.permissions import ACL
from tests.jepsen.nemeses.processes import CRASH, CRASH_ALWAYS, CRASH_EVERYSEC, FREEZE, RESTART
from tests.jepsen.nemeses.roles import (
    CLUSTER_FAILOVER,
    CLUSTER_FREEZE,
    CLUSTER_KILL,
    CLUSTER_TAKEOVER,
    HANDOVER,
    HESITATE,
    MIGRATE,
    MIGRATE_ATOMIC,
    PROMOTE,
    REPLICA_FREEZE,
    SENTINEL_AWAY,
    SENTINEL_COORDINATED,
    SENTINEL_FAILOVER,
    SENTINEL_FREEZE,
    SENTINEL_KILL,
)
from tests.jepsen.nemeses.workers import BLOCK, CANCEL, KILL, PAUSE

#: Every nemesis by its name.
NEMESES: dict[str, Nemesis] = {
    each.name: each
    for each in (
        KILL,
        PAUSE,
        BLOCK,
        CANCEL,
        CRASH,
        RESTART,
        CRASH_EVERYSEC,
        CRASH_ALWAYS,
        FREEZE,
        BUSY,
        CLIENT_PAUSE,
        SCRIPT_FLUSH,
        KILL_PUBSUB,
        KILL_CONNECTIONS,
        FLUSHALL,
        MEMORY_FULL,
        EVICTION,
        ACL,
        DISK_FULL,
        CUT,
        REFUSE,
        BLACK_HOLE_UP,
        BLACK_HOLE_DOWN,
        BLACK_HOLE,
        SWALLOW,
        HALF_OPEN,
        CUT_AFTER,
        DELAY,
        DRIBBLE,
        HOLD,
        DUPLICATE,
        DROP,
        DROP_UP,
        DROP_DOWN,
        CLOCK_STEP,
        CLOCK_HOUR,
        CLOCK_DRIFT,
        HESITATE,
        REPLICA_FREEZE,
        REPLICA_PARTITION,
        PARTITION,
        HANDOVER,
        PROMOTE,
        SENTINEL_AWAY,
        SENTINEL_COORDINATED,
        SENTINEL_FAILOVER,
        SENTINEL_FREEZE,
        SENTINEL_KILL,
        CLUSTER_FAILOVER,
        CLUSTER_TAKEOVER,
        CLUSTER_FREEZE,
        CLUSTER_KILL,
        MIGRATE,
        MIGRATE_ATOMIC,
    )
}
