"""A real Redisson in a Java machine and us on the same names; needs `java` and `mvn`.

- `kinds.py` says how to get each kind of lock on both sides; the tests of exclusion, expiry,
  deaths and looks run over all of them.
- `same_steps.py` has both sides take the same steps and lists every difference in keys, values,
  expiries and messages.
- `crowd.py` has processes of both languages contend under a referee; `CROWD=8` makes it a soak.
- `sides.py` has every primitive with one face for both sides, for the tests of names, on clusters
  and by Sentinel: `both_ways.py` has one of each held by Java while we wait, and the other way
  round.

The Java side is started by `tests/fixtures/java.py`, which says what its driver does.
"""
