"""The error of a store whose driver is not installed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Generator[None]:
    """Import the driver of an extra of this package inside the block.

    Raises:
        ModuleNotFoundError: It is not installed; the text says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"redisson_py.{extra} needs {error.name}, which is not installed:"
            f" pip install 'redisson-py[{extra}]'",
            name=error.name,
        ) from error
