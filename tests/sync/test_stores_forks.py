"""Processes that fork, and that end, with clients of other stores for threads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.fixtures.backends import Running as RunningBackend
from tests.support import fork_beside_first_use, repository
from tests.sync.stores import CLIENTS, new_client

pytestmark = pytest.mark.parametrize("name", CLIENTS)

#: How many forks, each during another import.
FORKS = 10

START = """
import os, sys, threading, time
from redisson_py import BackendError, ClientClosedError
from tests.sync.stores import CLIENTS

client = CLIENTS[sys.argv[1]].from_url(sys.argv[2], lease_time=30)
lock = client.get_fenced_lock("k")

def in_child(work):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def run(code: str, name: str, running: RunningBackend) -> tuple[int, list[str], str]:
    """Return the exit code of a program, what it printed, and what it complained of."""
    done = subprocess.run(
        [
            *(sys.executable, "-u", "-W", "ignore:This process:DeprecationWarning"),
            *("-c", START + textwrap.dedent(code), name, running(name).url),
        ],
        cwd=repository.ROOT,
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def assert_free_at_once(name: str, running: RunningBackend) -> None:
    """Fail if the lock is held: its lease would last much longer than this asks."""
    with new_client(name, running(name)) as client:
        lease = client.get_fenced_lock("k").try_acquire()
        assert lease is not None
        lease.release()


def test_nothing_starts_before_the_first_use(name: str, running_backend: RunningBackend) -> None:
    code = """
    assert threading.active_count() == 1
    with lock as lease:
        print(lease.owner.startswith(client.id))
    assert "redisson_py.sync" in {each.name for each in threading.enumerate()}
    """
    assert run(code, name, running_backend) == (0, ["True"], "")


def test_a_program_that_ends_holding_releases(name: str, running_backend: RunningBackend) -> None:
    code = """
    def wait():
        with client.get_fenced_lock("k"):
            pass

    lease = lock.acquire()
    threading.Thread(target=wait, daemon=True).start()
    while not client.statistics().waiters:
        time.sleep(0.001)
    print("held")
    """
    status, output, errors = run(code, name, running_backend)
    assert (status, output) == (0, ["held"]), errors
    assert "closing while still holding" in errors
    assert "Fatal" not in errors
    assert_free_at_once(name, running_backend)


def test_the_end_waits_for_threads_that_hold(name: str, running_backend: RunningBackend) -> None:
    code = """
    def work():
        with lock as lease:
            inside.set()
            threading.main_thread().join()
            time.sleep(0.2)
            lease.check()
            print("not lost", flush=True)

    inside = threading.Event()
    threading.Thread(target=work).start()
    inside.wait()
    """
    assert run(code, name, running_backend) == (0, ["not lost"], "")
    assert_free_at_once(name, running_backend)


def test_a_client_that_was_not_connected_works_in_each_child_and_in_the_parent(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    def work():
        with lock as lease:
            print(lease.owner.startswith(client.id))

    for _ in range(3):
        in_child(work)
    work()
    """
    assert run(code, name, running_backend) == (0, ["True"] * 4, "")


def test_children_of_multiprocessing_exclude_each_other(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    import multiprocessing

    def work(number):
        with lock:
            before = total.value
            time.sleep(0.002)
            total.value = before + 1
            return client.id

    context = multiprocessing.get_context("fork")
    total = context.Value("i", 0, lock=False)
    with context.Pool(3) as pool:
        ids = pool.map(work, range(30), chunksize=1)
        pool.close()
        pool.join()
    print(total.value, client.id in ids)
    """
    status, output, errors = run(code, name, running_backend)
    assert (status, output) == (0, ["30 False"]), errors


def test_a_client_that_was_connected_is_refused_in_a_child(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    def work():
        for use in (lock.acquire, lock.release, client.ping, client.close):
            try:
                use()
            except ClientClosedError as error:
                print(error)

    with lock as lease:
        in_child(work)
        lease.check()
        assert lock.owned()
    """
    status, output, errors = run(code, name, running_backend)
    assert status == 0, errors
    assert {*output} == {
        "the client was connected before a fork; create a client in the child,"
        " or connect only there"
    }
    assert len(output) >= 3
    assert_free_at_once(name, running_backend)


def test_a_leader_and_a_holder_of_permits_are_refused_in_a_child_and_end_with_their_program(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    election = client.get_election("/leaders/forked")
    leadership = election.acquire("one")
    states = election.observe()
    assert next(states).text == "one"
    held = [leadership]
    if sys.argv[1] == "postgres":
        held.append(client.get_semaphore("forked", 1).acquire())
        held.append(client.get_read_write_lock("forked").write_lock().acquire())

    def work():
        uses = [lambda: election.acquire("two"), election.leader, lambda: next(states)]
        for use in (*uses, *(each.release for each in held)):
            try:
                use()
            except ClientClosedError:
                print("refused")

    in_child(work)
    for each in held:
        each.check()
    """
    status, output, errors = run(code, name, running_backend)
    permits = name == "postgres"
    assert (status, output) == (0, ["refused"] * (6 if permits else 4)), errors
    # The leases would last much longer than these ask.
    with new_client(name, running_backend(name)) as client:
        client.get_election("/leaders/forked").acquire("next", timeout=0).release()
        if permits:
            client.get_semaphore("forked").acquire(timeout=0).release()
            client.get_read_write_lock("forked").read_lock().acquire(timeout=0).release()


def test_a_new_client_of_a_child_beside_one_of_the_parent(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    def work():
        own = CLIENTS[sys.argv[1]].from_url(sys.argv[2])
        try:
            print(own.get_fenced_lock("k").try_acquire())
        except BackendError as error:
            # gRPC cannot be used after a fork.
            print(type(error).__name__)

    with lock as lease:
        in_child(work)
        lease.check()
    """
    expected = "None" if running_backend(name).forks else "BackendError"
    status, output, errors = run(code, name, running_backend)
    assert (status, output) == (0, [expected]), errors
    assert_free_at_once(name, running_backend)


def test_what_cannot_be_sent_to_another_process(name: str, running_backend: RunningBackend) -> None:
    code = """
    import pickle

    for each in (client, lock, lock.hold()):
        try:
            pickle.dumps(each)
        except TypeError as error:
            print(str(error).partition(":")[2])
    """
    status, output, errors = run(code, name, running_backend)
    assert (status, len(output)) == (0, 3), errors


def test_a_child_that_was_forked_during_any_import_makes_a_client_and_locks(
    name: str, running_backend: RunningBackend
) -> None:
    backend = running_backend(name)
    module, kind = f"redisson_py.sync.{name}", CLIENTS[name].__name__
    children = fork_beside_first_use.children(module, kind, backend.url, FORKS)
    assert len(children) == FORKS
    # gRPC may have been used before the fork: that is refused.
    ends = {"done"} if backend.forks else {"done", "BackendError"}
    assert {name: end for name, end in children.items() if end not in ends} == {}


def test_a_client_that_is_made_has_all_that_its_use_imports(
    name: str, running_backend: RunningBackend
) -> None:
    code = """
    before = set(sys.modules)
    with lock:
        lock.inspect()
    # A fork waits for the start of the thread, which imports what is left of anyio.
    print(*sorted({each for each in set(sys.modules) - before if not each.startswith("anyio")}))
    """
    assert run(code, name, running_backend) == (0, [""], "")
