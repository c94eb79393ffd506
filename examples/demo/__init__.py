"""`python -m examples.demo`: what a lock is for, and what it does when its holders fail.

Worker processes post sales to two shared books, a ledger file and a Redis key, by an
unprotected read-modify-write: first without a lock, so that bookings get lost, then under
`async with client.get_lock(...)`, while one worker is killed and one is stopped past its lease.
With `--cluster` nothing happens to the workers: lock and key are on a cluster whose masters are
killed and whose slots are moved meanwhile.
"""
