"""What `redisson-py doctor` checks.

`reading` asks the servers that `discovery` finds, and returns `facts`; `trial` takes a real lock. A
check (in `servers`, `access`, `topologies`, `clocks`) is a function from facts to findings, without
I/O; `examination` has the list of all checks.
"""
