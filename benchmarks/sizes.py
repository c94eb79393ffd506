"""How much of everything is measured: the same rows in every size, with other counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The counts of one run.

    Attributes:
        rounds: For the sides whose ratios count; they take turns.
        other_rounds: For all other sides.
        seconds: A round.
        slow_seconds: A round of sides that change hands by polling.
        warm_up: How long a side may take to get fast.
        tasks: Uncontended: how many at once.
        contenders: Contended, in one process: how many at once.
        crews: Contended, across processes: how many, and tasks in each.
        primitive_tasks: Every primitive, uncontended: how many at once.
        crowd: Every primitive, contended: how many in each of two processes.
        woken: How many waiters are let go.
        fair_crew: Order and fairness: how many processes, and tasks in each.
        red_tasks: Red locks: how many at once.
        compared_waiters: Waiters of one name, for every side.
        waiters: Waiters of ours, on one name and on a name each.
        window: Seconds for which waiting is watched; polls come every 5 to 7.5 s.
        rate_waiters: Tasks that wait for a rate limiter.
        rate_intervals: How many of its intervals are watched, beyond the first.
        held: Locks held and renewed.
        held_on_uvloop: On uvloop, where nothing is asked of them.
        held_by_rivals: By rivals, which have a thread or a task for each.
        renewed_lease: The lease of ours, in seconds. With fewer locks it is shorter, so that as
            many renewals a second are due.
        renewed_by_rivals: That of theirs.
        renewals: How often all of them are renewed while the clock runs.
        losses: How many leases are lost, in each way.
        lost_lease: Their lease, in seconds.
        benchmark_requests: For redis-benchmark, with one request under way.
        growth_seconds: A round of growth.
        growth_tasks: How costs grow with tasks.
        growth_names: With names; the largest number takes long enough for a single round.
        growth_waiters: With waiters of one name.
        clients: Of a crowd, one waiting task each: how many.
        most_clients_in_java: How many at most of Redisson, which has threads for each.
        crowd_seconds: For which a crowd is watched; more of them for many clients.
        crowd_rounds: How often, where rivals take part.
        imports: How often each import is timed.
        topology_tasks: Clusters and Sentinel, uncontended: how many at once.
        topology_rounds: Rounds of that.
        outages: What is done to a cluster.
        outage_rounds: How often, each time to a fresh one.
        outage_pause: Seconds of quiet before it, and after everybody works again.
        held_in_outage: Locks that a side holds meanwhile.
    """

    rounds: int = 7
    other_rounds: int = 3
    seconds: float = 0.4
    slow_seconds: float = 1.5
    warm_up: float = 15.0
    tasks: tuple[int, ...] = (1, 8, 64, 512)
    contenders: tuple[int, ...] = (2, 10, 100)
    crews: tuple[tuple[int, int], ...] = ((2, 1), (2, 10), (4, 1), (4, 10))
    primitive_tasks: tuple[int, ...] = (1, 64)
    crowd: int = 10
    woken: int = 1_000
    fair_crew: tuple[int, int] = (4, 25)
    red_tasks: tuple[int, ...] = (1, 64)
    compared_waiters: int = 100
    waiters: tuple[int, ...] = (1_000, 10_000)
    window: float = 20.0
    rate_waiters: int = 1_000
    rate_intervals: int = 4
    held: int = 100_000
    held_on_uvloop: int = 20_000
    held_by_rivals: int = 100
    renewed_lease: float = 9.0
    renewed_by_rivals: float = 3.0
    renewals: int = 2
    losses: int = 50
    lost_lease: float = 3.0
    benchmark_requests: int = 10_000
    growth_seconds: float = 0.2
    growth_tasks: tuple[int, ...] = (1, 4, 16, 64, 256, 1_024, 4_096)
    growth_names: tuple[int, ...] = (1, 10, 100, 1_000, 10_000, 100_000)
    growth_waiters: tuple[int, ...] = (10, 100, 1_000, 10_000)
    clients: tuple[int, ...] = (2, 8, 32, 128, 512)
    most_clients_in_java: int = 128
    crowd_seconds: float = 3.0
    crowd_rounds: int = 2
    imports: int = 11
    topology_tasks: tuple[int, ...] = (1, 64, 512)
    topology_rounds: int = 5
    outages: tuple[str, ...] = (
        *("kill", "freeze", "graceful failover"),
        *("slot moves key by key", "slot halts half moved", "atomic move"),
    )
    outage_rounds: int = 2
    outage_pause: float = 1.5
    held_in_outage: int = 100


SIZES = {
    "full": Size(),
    "quick": Size(
        rounds=3,
        other_rounds=1,
        seconds=0.08,
        slow_seconds=0.2,
        warm_up=3.0,
        waiters=(1_000,),
        window=7.5,
        rate_intervals=2,
        held=11_111,
        held_on_uvloop=2_000,
        renewed_lease=1.0,
        renewed_by_rivals=1.0,
        renewals=2,
        losses=20,
        lost_lease=0.5,
        benchmark_requests=1_500,
        growth_seconds=0.08,
        crowd_seconds=1.0,
        crowd_rounds=1,
        imports=5,
        topology_rounds=3,
        outage_rounds=1,
        outage_pause=1.0,
    ),
    # Shows that everything works, and nothing else: for the test of the benchmarks.
    "tiny": Size(
        rounds=1,
        other_rounds=1,
        seconds=0.02,
        slow_seconds=0.02,
        warm_up=0.1,
        tasks=(1, 8),
        contenders=(10,),
        crews=((2, 1),),
        primitive_tasks=(1, 8),
        crowd=3,
        woken=20,
        fair_crew=(2, 3),
        red_tasks=(1, 8),
        compared_waiters=2,
        waiters=(),
        window=0.05,
        rate_waiters=20,
        rate_intervals=1,
        held=20,
        held_on_uvloop=20,
        held_by_rivals=2,
        renewed_lease=0.3,
        renewed_by_rivals=0.3,
        renewals=1,
        losses=2,
        lost_lease=0.2,
        benchmark_requests=100,
        growth_seconds=0.02,
        growth_tasks=(1, 8),
        growth_names=(1, 100),
        growth_waiters=(10,),
        clients=(2, 3),
        most_clients_in_java=2,
        crowd_seconds=0.1,
        crowd_rounds=1,
        imports=1,
        topology_tasks=(1, 8),
        topology_rounds=1,
        outages=("graceful failover",),
        outage_rounds=1,
        outage_pause=0.2,
        held_in_outage=2,
    ),
}
