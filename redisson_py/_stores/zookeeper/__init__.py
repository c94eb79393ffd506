"""The ZooKeeper store."""

from __future__ import annotations

from .store import ZooKeeperStore

__all__ = ["ZooKeeperStore"]
