"""The servers of a run: one, Sentinel, a cluster, five that know nothing of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redisson_py.testing import running_server
from tests.jepsen.field import Field
from tests.jepsen.history import Recorder


@asynccontextmanager
async def single(record: Recorder) -> AsyncIterator[tuple[Field, list[str]]]:
    """Run one server; yield the field and the URLs for a worker."""
    async with running_server() as server:
        yield Field(record, [server]), [server.url]


TOPOLOGIES = {"single": single}
