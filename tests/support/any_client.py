"""A client of any store."""

from __future__ import annotations

from redisson_py import Redisson
from redisson_py._stores.client import StoreClient

Client = Redisson | StoreClient
