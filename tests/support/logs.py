"""Checks of what asyncio logged."""

from __future__ import annotations

import gc

import pytest

from redisson_py import RedissonError


def assert_all_retrieved(caplog: pytest.LogCaptureFixture) -> None:
    """Raise if asyncio logged an error of ours that was never retrieved from a future or task.

    Errors of redis-py's streams are ignored: the garbage collector orders their finalizers.
    """
    gc.collect()
    lost = [record.exc_info for record in caplog.records if "never retrieved" in record.message]
    assert not [info for info in lost if info and isinstance(info[1], RedissonError)]
