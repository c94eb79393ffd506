"""Locks made of several locks: MultiLock, RedLock."""
