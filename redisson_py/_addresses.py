"""Addresses of servers as users write them, and the map from announced addresses to usable ones.

Behind a NAT, in containers or through tunnels a node may announce an address that this process
cannot reach. An address map gives the address to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypeGuard, final

from redisson_py.errors import BackendError

__all__ = [
    "Address",
    "AddressMap",
    "AddressMapError",
    "AddressMapping",
    "Topology",
    "check_address_map",
    "one_argument",
    "read_address",
    "write_address",
]

Address: TypeAlias = tuple[str, int]

#: One server, a cluster, a master that sentinels name, several servers one of which is master.
Topology: TypeAlias = Literal["single", "cluster", "sentinel", "replicated"]

#: What the option takes: a mapping from and to "host:port" or (host, port), or a function of host
#: and port.
AddressMapping: TypeAlias = (
    Mapping[str, str]
    | Mapping[Address, Address]
    | Mapping[str, Address]
    | Mapping[Address, str]
    | Callable[[str, int], Address]
)

_WANTED = '"host:port" or (host, port)'


class AddressMapError(BackendError):
    """Raised when the user's `address_map` raised, or returned no address."""


@final
class AddressMap:
    """A function from the address that a node announces to the one to use, with checks.

    It is called with every address that a cluster or sentinels name, also in the background. If it
    raises, or returns no address, whatever needs the address fails.
    """

    def __init__(self, function: Callable[[str, int], object]) -> None:
        self._function = function

    def __call__(self, host: str, port: int) -> Address:
        """Return the address to use for the one that a node announces.

        Raises:
            AddressMapError: The function raised, or what it returned is no address.
        """
        try:
            found = self._function(host, port)
        except Exception as error:
            raise AddressMapError(
                f"address_map failed for {write_address(host, port)}: {error!r}"
            ) from error
        if not _is_address(found):
            raise AddressMapError(
                f"address_map must return (host, port), but returned {found!r} for"
                f" {write_address(host, port)}"
            )
        return found


def check_address_map(given: object) -> AddressMap | None:
    """Return the option `address_map`, checked; what a mapping does not name stays as it is.

    Raises:
        TypeError: It is neither a mapping nor callable, or contains something other than addresses.
        ValueError: An address in it is malformed.
    """
    if given is None or isinstance(given, AddressMap):
        return given
    if isinstance(given, Mapping):
        found = {_read(key): _read(value) for key, value in given.items()}
        return AddressMap(lambda host, port: found.get((host, port), (host, port)))
    if callable(given):
        return AddressMap(given)
    raise TypeError(f"address_map must be a mapping or callable, not {type(given).__name__}")


def one_argument(function: Callable[[Address], object]) -> Callable[[str, int], object]:
    """Return a function of host and port for a function of one tuple, such as redis-py's."""
    return lambda host, port: function((host, port))


def read_address(text: str) -> Address | None:
    """Return host and port of "host:port" or "[ipv6]:port"; None if it is something else."""
    host, colon, number = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            return None
    elif ":" in host:
        return None
    if not (colon and number.isascii() and number.isdecimal() and len(number) < 6):
        return None
    return (host, int(number)) if _is_address((host, int(number))) else None


def write_address(host: str, port: int) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read(given: object) -> Address:
    if isinstance(given, str):
        address = read_address(given)
        if address is None:
            raise ValueError(f"an address in address_map must be {_WANTED}, not {given!r}")
        return address
    if not isinstance(given, tuple) or [type(each) for each in given] != [str, int]:
        raise TypeError(f"an address in address_map must be {_WANTED}, not {given!r}")
    if not _is_address(given):
        raise ValueError(f"an address in address_map must be {_WANTED}, not {given!r}")
    return given


def _is_address(given: object) -> TypeGuard[Address]:
    match given:
        case (str(host), int(port)) if not isinstance(port, bool):
            return bool(host) and not any(c in host for c in "[]/@, ") and 0 < port < 65536
        case _:
            return False
