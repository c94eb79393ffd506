"""Requests for nodes that kazoo has no method for, and those of contenders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from kazoo.protocol.serialization import Create2
from kazoo.security import OPEN_ACL_UNSAFE

_EPHEMERAL: Final = 1
_EPHEMERAL_SEQUENTIAL: Final = 3
_CONTAINER: Final = 4


@final
class CreateContainer:
    """A request for a node that the server deletes once its last child is gone."""

    type = 19

    def __init__(self, path: str) -> None:
        """Ask for an empty node."""
        self._request: Any = Create2(path, b"", OPEN_ACL_UNSAFE, _CONTAINER)
        self.deserialize: Callable[[Any, int], object] = self._request.deserialize

    def serialize(self) -> bytes:
        """Return it as it goes over the wire."""
        return bytes(self._request.serialize())


def create_contender(path: str, data: bytes, number: str | None = None) -> object:
    """Return a request for a node that ends with its session.

    The server adds a new number to its path, unless there is one already.
    """
    if number is not None:
        return Create2(path + number, data, OPEN_ACL_UNSAFE, _EPHEMERAL)
    return Create2(path, data, OPEN_ACL_UNSAFE, _EPHEMERAL_SEQUENTIAL)
