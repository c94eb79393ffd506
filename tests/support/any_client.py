"""A client of any store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redisson_py import Redisson
    from redisson_py._stores.client import StoreClient

    Client = Redisson | StoreClient
else:
    # Older versions of the package, which tests/jepsen runs beside this one, have no other stores.
    Client = Any
