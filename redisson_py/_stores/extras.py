"""What stores import: their drivers, with an error where one is not installed, and a codec."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

# All drivers encode names of hosts with it. A fork would not wait for a later import: see `_forks`.
import_module("encodings.idna")

#: What a module is called that is not called as its package.
_PACKAGES = {"google": "protobuf", "grpc": "grpcio"}


@contextmanager
def needs(extra: str) -> Generator[None]:
    """Import the driver of an extra of this package inside the block.

    Raises:
        ModuleNotFoundError: It is not installed; the text says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        raise ModuleNotFoundError(
            f"redisson_py.{extra} needs {_PACKAGES.get(module, module)}, which is not installed:"
            f" pip install 'redisson-py[{extra}]'",
            name=error.name,
        ) from error
