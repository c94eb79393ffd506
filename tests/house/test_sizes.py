"""No file is too long to be read in one sitting."""

from __future__ import annotations

from tests.support import repository

LONGEST = 400

#: Files that may be longer, each with its reason. Should stay few.
EXCEPTIONS = {
    "redisson_py/_client.py": (
        "the public class: half of it are signatures and docstrings; its private half is how it "
        "closes, and that touches every part it is made of"
    ),
    "redisson_py/_engine/hold.py": (
        "the only writer of a hold's state: its transitions and invariants stand together"
    ),
    "redisson_py/_stream/stream.py": (
        "the order in which commands leave is one promise: first sends, repeats after a broken "
        "connection and scripts that must be loaded first keep it together"
    ),
    "tests/unit/test_local_queue.py": "the tests of one class: each way to wait and to leave",
    "redisson_py/_engine/request.py": "one acquire request, from its first ask to its undo",
    "redisson_py/_commands/lock.py": "the scripts of the locks that are one hash",
    "redisson_py/_engine/ownership.py": "the holds of one client on a name: asked for, given back",
    "redisson_py/_engine/lease.py": "a lease and all that its owner may do with it",
    "redisson_py/_engine/watchdog.py": "one timer, and all that it does when it rings",
    "redisson_py/semaphores/_ownership.py": "acquiring and releasing permits, with their queue",
}


def test_no_file_is_too_long() -> None:
    lengths = {
        repository.name(path): len(path.read_text("utf-8").splitlines())
        for path in repository.of_kind(".py") + repository.of_kind(".lua")
    }
    assert "redisson_py/_engine/waiting.py" in lengths
    too_long = {name: lines for name, lines in lengths.items() if lines > LONGEST}
    assert too_long.keys() - EXCEPTIONS.keys() == set(), too_long


def test_no_exception_outlives_its_reason() -> None:
    for name, reason in EXCEPTIONS.items():
        assert reason
        assert len((repository.ROOT / name).read_text("utf-8").splitlines()) > LONGEST, name
