"""What `redisson-py doctor` checks.

`reading` asks the servers and fills in the values of `facts`; `trial` takes a real lock. A check
(`servers`, `access`, `topologies`, `clocks`) is a function from facts to findings, without I/O.
`examination` has the list of all checks.
"""
