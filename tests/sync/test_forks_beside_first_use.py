"""Processes that fork while another of their threads imports or uses the package the first time."""

from __future__ import annotations

import pytest

from tests.support import fork_beside_first_use
from tests.sync.test_forks_and_exits import run

pytestmark = [pytest.mark.also("newest"), pytest.mark.more]

#: How many forks, each during another import.
FORKS = 30


@pytest.mark.parametrize("module", ["redisson_py.sync", "redisson_py"])
def test_a_child_that_was_forked_during_any_import_makes_a_client_and_locks(
    module: str, server_url: str
) -> None:
    children = fork_beside_first_use.children(module, "Redisson", server_url, FORKS)
    assert len(children) == FORKS
    assert {name: end for name, end in children.items() if end != "done"} == {}


def test_a_client_that_is_made_has_all_that_its_use_imports(server_url: str) -> None:
    code = """
    before = set(sys.modules)
    with lock, client.get_fair_lock("fair"), client.get_read_write_lock("sides").write_lock():
        lock.inspect()
        client.get_semaphore("semaphore", 1).acquire()
    for url in ("redis://localhost:1", "redis+cluster://localhost:1", "rediss://localhost:1"):
        try:
            Redisson.from_url(url, command_timeout=0.1).ping()
        except Exception:
            pass
    print(*sorted({each for each in set(sys.modules) - before if not each.startswith("anyio")}))
    """
    # A fork waits for the start of the thread, which imports what is left of anyio.
    status, output, _ = run(code, server_url)
    assert (status, output) == (0, [""])


def test_a_fork_does_not_wait_for_a_name_mapper(server_url: str) -> None:
    code = """
    taken, mapping = threading.Lock(), threading.Event()

    def name_mapper(name):
        mapping.set()
        with taken:
            return name

    mapped = Redisson.from_url(sys.argv[1], name_mapper=name_mapper)
    with taken:
        threading.Thread(target=mapped.get_lock, args=["k"], daemon=True).start()
        mapping.wait()
        in_child(lambda: (signal.alarm(40), print(client.get_lock("other").name)))
    """
    assert run(code, server_url) == (0, ["other"], "")


def test_a_fork_waits_no_longer_than_it_says(server_url: str) -> None:
    code = """
    from redisson_py import _forks

    _forks.LONGEST_WAIT_SECONDS = 0.1
    entered, leave = threading.Event(), threading.Event()

    def never_ends():
        with _forks.no_fork():
            entered.set()
            leave.wait()

    threading.Thread(target=never_ends, daemon=True).start()
    entered.wait()
    in_child(lambda: (signal.alarm(40), print(client.get_lock("k").locked())))
    leave.set()
    """
    assert run(code, server_url) == (0, ["False"], "")


def test_a_call_does_not_wait_for_ever_for_an_import_of_the_thread(server_url: str) -> None:
    code = """
    import importlib.abc, importlib.machinery
    from redisson_py.sync import _loop_thread

    class Stuck(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path, target=None):
            if name == "anyio._backends._asyncio":
                return importlib.machinery.ModuleSpec(name, self)

        def exec_module(self, module):
            threading.Event().wait()

    sys.meta_path.insert(0, Stuck())
    _loop_thread._LONGEST_START = 0.1
    signal.alarm(40)
    try:
        lock.locked()
    except RuntimeError as error:
        print(str(error).split(";")[0])
    """
    text = "the thread of redisson_py.sync did not start within 0.1 s"
    assert run(code, server_url) == (0, [text], "")
