"""Processes that fork, and that end with the event loop's thread running."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import redis as redis_py

from tests.support import repository

pytestmark = [pytest.mark.also("newest"), pytest.mark.heart]

START = """
import atexit, os, signal, sys, threading, time
from redisson_py import ClientClosedError
from redisson_py.sync import Redisson

client = Redisson.from_url(sys.argv[1], lease_time=600)
lock = client.get_lock("k")

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(child, 0)
"""


#: From Python 3.12 on, any fork beside threads; here that is what is tested.
NO_WARNING = ("-W", "ignore:This process:DeprecationWarning")


def started(code: str, url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *NO_WARNING, *arguments, "-c", START + textwrap.dedent(code), url],
        cwd=repository.ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, url: str, *arguments: str) -> tuple[int, list[str], str]:
    """Return the exit code of a program, what it printed, and what it complained of."""
    process = started(code, url, *arguments)
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, output.splitlines(), errors


def test_nothing_starts_before_the_first_use(server_url: str) -> None:
    code = """
    assert threading.active_count() == 1
    with lock:
        pass
    assert threading.active_count() == 2
    """
    assert run(code, server_url) == (0, [], "")


def test_a_program_that_ends_holding_releases(server_url: str, look: redis_py.Redis) -> None:
    code = """
    lock.acquire()
    client.get_semaphore("semaphore", 2).acquire()
    print("held")
    """
    status, output, errors = run(code, server_url)
    assert (status, output) == (0, ["held"])
    assert "closing while still holding" in errors
    assert "Traceback" not in errors
    # The lease was of ten minutes.
    assert not look.exists("k")
    assert look.get("semaphore") == b"2"


def test_the_end_waits_for_threads_that_hold(server_url: str, look: redis_py.Redis) -> None:
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
    assert run(code, server_url) == (0, ["not lost"], "")
    assert not look.exists("k")


def test_the_end_does_not_wait_for_daemon_threads(server_url: str, look: redis_py.Redis) -> None:
    code = """
    def work():
        with client.get_lock("k"):
            pass

    lock.acquire()
    threading.Thread(target=work, daemon=True).start()
    while not client.statistics().waiters:
        time.sleep(0.001)
    """
    status, _, errors = run(code, server_url)
    assert status == 0
    assert "Fatal" not in errors
    assert not look.exists("k")


def test_what_comes_after_the_end_is_refused(server_url: str) -> None:
    code = """
    from redisson_py.sync import _loop_thread

    def after():
        try:
            lock.acquire()
        except ClientClosedError as error:
            print(error)
        client.close()

    atexit.unregister(_loop_thread._exit)
    atexit.register(after)
    atexit.register(_loop_thread._exit)
    with lock:
        pass
    """
    status, output, errors = run(code, server_url)
    assert (status, errors) == (0, "")
    assert output == ["the client is closed"] or "exiting" in output[0]


def test_a_client_that_was_not_connected_works_in_a_child(server_url: str) -> None:
    code = """
    def work():
        with lock as lease:
            print(lease.owner.startswith(client.id))

    for _ in range(2):
        in_child(work)
    work()
    """
    assert run(code, server_url, "-W", "error") == (0, ["True"] * 3, "")


@pytest.mark.parametrize("other", ["", "other.ping()"], ids=["alone", "another client works"])
def test_a_client_that_was_connected_is_refused_in_a_child(
    server_url: str, other: str, look: redis_py.Redis
) -> None:
    code = f"""
    other = Redisson.from_url(sys.argv[1])

    def work():
        {other or "pass"}
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
    status, output, errors = run(code, server_url)
    assert status == 0, errors
    assert output == [
        "the client was connected before a fork; create a client in the child,"
        " or connect only there"
    ] * len(output)
    assert len(output) >= 3
    assert not look.exists("k")


def test_a_block_of_the_parent_that_a_child_leaves_stays_the_parents(
    server_url: str, look: redis_py.Redis
) -> None:
    code = """
    with lock as lease:
        child = os.fork()
        if child == 0:
            try:
                del lease
                raise SystemExit
            except SystemExit:
                pass
        else:
            os.waitpid(child, 0)
            lease.check()
            assert lock.owned()
            print("the parent's")
    """
    status, output, _ = run(code, server_url)
    assert "the parent's" in output
    assert status == 0
    assert not look.exists("k")


def test_children_of_multiprocessing(server_url: str) -> None:
    code = """
    import multiprocessing

    def work(number):
        with lock:
            total.value += 1
            return client.id

    context = multiprocessing.get_context("fork")
    total = context.Value("i", 0, lock=False)
    with context.Pool(3) as pool:
        ids = pool.map(work, range(30), chunksize=1)
        pool.close()
        pool.join()
    print(total.value, client.id in ids)
    """
    assert run(code, server_url) == (0, ["30 False"], "")


def test_forking_while_threads_start(server_url: str) -> None:
    code = """
    def busy():
        while not stop.is_set():
            thread = threading.Thread(target=other.ping)
            thread.start()
            thread.join()

    stop = threading.Event()
    other = Redisson.from_url(sys.argv[1])
    threading.Thread(target=busy).start()
    for _ in range(20):
        in_child(lambda: print(client.get_lock("k").locked()))
    stop.set()
    """
    status, output, _ = run(code, server_url)
    assert (status, output) == (0, ["False"] * 20)


def test_a_client_is_closed_by_a_signal_handler_of_a_thread_that_waits(server_url: str) -> None:
    code = """
    other = Redisson.from_url(sys.argv[1])
    lease = other.get_lock("k").acquire()

    def interrupt():
        while not client.statistics().waiters:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    signal.signal(signal.SIGTERM, lambda *_: client.close())
    threading.Thread(target=interrupt).start()
    try:
        lock.acquire(timeout=30)
    except ClientClosedError as error:
        print("closed")
    lease.release()
    """
    assert run(code, server_url) == (0, ["closed"], "")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_cannot_be_sent_to_another_process(method: str, server_url: str) -> None:
    code = f"""
    import multiprocessing

    for each in (client, lock, lock.hold()):
        try:
            multiprocessing.get_context("{method}").Process(target=print, args=(each,)).start()
        except TypeError as error:
            print(error)
    """
    status, output, _ = run(code, server_url)
    assert status == 0
    assert [each.split(":")[0] for each in output] == [
        f"{kind} cannot be pickled or copied" for kind in ("Redisson", "RLock", "HoldBlock")
    ]


def test_the_end_with_a_server_that_is_silent(server_url: str) -> None:
    code = """
    import socket

    silent = socket.create_server(("127.0.0.1", 0))
    url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
    client = Redisson.from_url(url, command_timeout=30)
    threading.Thread(target=client.ping, daemon=True).start()
    silent.accept()
    """
    status, _, errors = run(code, server_url)
    assert status == 0
    assert "Fatal" not in errors


def test_forking_while_the_event_loop_starts(server_url: str) -> None:
    code = """
    ready = threading.Event()

    def first():
        ready.set()
        client.ping()

    threading.Thread(target=first).start()
    ready.wait()
    other = Redisson.from_url(sys.argv[1])
    for _ in range(3):
        in_child(lambda: (signal.alarm(40), print(other.get_lock("k").locked())))
    """
    for _ in range(4):
        assert run(code, server_url) == (0, ["False"] * 3, "")
