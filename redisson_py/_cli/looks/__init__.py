"""What `inspect`, `locks`, `release` and `top` look at.

`keyspace` finds names by SCAN, `asking` sends the commands that read, `kinds` says which they are
for each kind, and `replies` what comes back. `found` has the values, `tables` prints them;
`watching` and `screen` are those of `top`.
"""
