"""Locks that tasks hold: RLock, FencedLock, FairLock, ReadWriteLock."""
