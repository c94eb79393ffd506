"""A server in a container, through the optional package `testcontainers`."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from ._binaries import ServerNotFoundError
from ._process import Probe
from ._server import ServerStartError, to_the_end

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

_PORT: Final = 6379
_LOOK_AGAIN: Final = 0.05
_START_TIMEOUT: Final = 60.0


@final
class ContainerServer:
    """A server in a container; `container_server` runs one for a block."""

    def __init__(self, image: str) -> None:
        """Remember the image; nothing is started."""
        self.image: Final = image
        self._container: DockerContainer | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """What to connect to."""
        if self._url is None:
            raise RuntimeError("the container has not been started")
        return self._url

    def start_blocking(self) -> None:
        """Start the container and wait until the server in it answers.

        Raises:
            ServerNotFoundError: `testcontainers` or Docker is missing.
            ServerStartError: The server did not answer in time.
        """
        self._container = container = _started(self.image)
        try:
            host = container.get_container_host_ip()
            port = int(container.get_exposed_port(_PORT))
            self._await_answer(Probe(host, port))
        except BaseException:
            self.close_blocking()
            raise
        self._url = f"redis://{host}:{port}"

    def close_blocking(self) -> None:
        """Remove the container."""
        if self._container is not None:
            self._container.stop()
            self._container = None

    def _await_answer(self, probe: Probe) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not probe.is_ready():
            if time.monotonic() > deadline:
                raise ServerStartError(
                    f"{self.image} did not answer within {_START_TIMEOUT} seconds"
                )
            time.sleep(_LOOK_AGAIN)


@asynccontextmanager
async def container_server(image: str = "valkey/valkey:9") -> AsyncGenerator[ContainerServer, None]:
    """Run a server in a container for a block.

    Needs the package `testcontainers` and a running Docker. The first use of an image
    downloads it.

    Raises:
        ServerNotFoundError: One of the two is missing; the message says which.
    """
    server = ContainerServer(image)
    try:
        await to_the_end(server.start_blocking)
        yield server
    finally:
        await to_the_end(server.close_blocking)


def _started(image: str) -> DockerContainer:
    if importlib.util.find_spec("testcontainers") is None:
        raise ServerNotFoundError("containers need testcontainers: pip install testcontainers")
    from docker.errors import DockerException
    from testcontainers.core.container import DockerContainer

    try:
        return DockerContainer(image).with_exposed_ports(_PORT).start()
    except DockerException as error:
        raise ServerNotFoundError(
            f"Docker could not run {image}: install and start Docker, or use another kind of "
            f"server ({error})"
        ) from error
