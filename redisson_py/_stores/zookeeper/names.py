"""Where ZooKeeper keeps a name: its directory, and the nodes of those that want it.

A name that is a ZooKeeper path already is used as it is, so that it meets Curator's. Any other is a
node below `/redisson_py`. There "%" and what ZooKeeper forbids is percent-encoded: control
characters, private and other special characters, those beyond U+FFFF, "/", and the whole names ".",
".." and "zookeeper". Two names have one directory only if one of them is that path itself.
"""

from __future__ import annotations

import re
import uuid
from itertools import takewhile
from typing import Final

from redisson_py._stores.contract import Kind

_BASE: Final = "/redisson_py/"
_FORBIDDEN: Final = "\\x00-\\x1f\\x7f-\\x9f\\ud800-\\uf8ff\\ufff0-\\uffff\\U00010000-\\U0010ffff"
_FORBIDDEN_IN_PATH: Final = re.compile(f"[{_FORBIDDEN}]")
_FORBIDDEN_IN_NODE: Final = re.compile(f"[{_FORBIDDEN}%/]")
_RESERVED: Final = frozenset((".", "..", "zookeeper"))
#: The numbers of a directory end here. Each further contender gets this one too; there are servers
#: that go on below zero.
_LAST_NUMBER: Final = 2**31 - 1
_OWNERS: Final = uuid.UUID("5f0f4a53-6c1f-5d0e-9d55-6b6c0c2b3f11")
#: What stands between the owner's part of a contender's name and its number.
_MARKS: Final[dict[Kind, str]] = {
    "lock": "lock-",
    "read": "__READ__",
    "write": "__WRIT__",
    "semaphore": "lease-",
    # Curator's LeaderSelector is an InterProcessMutex.
    "election": "lock-",
}
_LOCK: Final = re.compile(r"lock-(\d{10})\Z")
_READ_OR_WRITE: Final = re.compile(r"__(?:READ|WRIT)__(\d{10})\Z")
_LEASE: Final = re.compile(r"lease-(\d{10})\Z")
_PATTERNS: Final[dict[Kind, re.Pattern[str]]] = {
    "lock": _LOCK,
    "read": _READ_OR_WRITE,
    "write": _READ_OR_WRITE,
    "semaphore": _LEASE,
    "election": _LOCK,
}


def is_path(text: str) -> bool:
    """Whether a text is a path below the root, and not one of ZooKeeper's own."""
    if not text.startswith("/") or _FORBIDDEN_IN_PATH.search(text):
        return False
    nodes = text[1:].split("/")
    return nodes[0] != "zookeeper" and not any(node in {"", ".", ".."} for node in nodes)


def directory_of(name: str) -> str:
    """Return the path of the node below which the contenders of a name are."""
    return name if is_path(name) else _BASE + _node_of(name)


def levels_of(path: str) -> list[str]:
    """Return a path after all the paths above it: `/a`, `/a/b`."""
    ends = [slash.start() for slash in re.finditer("/", path)][1:]
    return [*(path[:end] for end in ends), path]


def prefix_of(owner: str, kind: Kind = "lock") -> str:
    """Return how the node of an owner begins, as Curator's protected nodes do."""
    return f"_c_{uuid.uuid5(_OWNERS, owner)}-{_MARKS[kind]}"


def number_of(node: str) -> str:
    """Return the number of a contender."""
    return node[-10:]


def has_order(node: str, kind: Kind = "lock") -> bool:
    """Return whether the number of a new contender puts it behind all that were there before."""
    found = _PATTERNS[kind].search(node)
    return found is not None and int(found[1]) < _LAST_NUMBER


def in_order(children: list[str], kind: Kind = "lock") -> list[str]:
    """Return the contenders among the children of a directory, in the order of their numbers.

    A read under a write hold has the number of that write hold, and comes after it.
    """
    pattern = _PATTERNS[kind]
    numbered = [
        (found[1], _reads(child), child) for child in children if (found := pattern.search(child))
    ]
    return [child for _, _, child in sorted(numbered)]


def blocker(nodes: list[str], node: str, kind: Kind, within: str | None = None) -> str | None:
    """Return the contender that must go before another is granted; None: it has the hold.

    Args:
        nodes: The contenders in order.
        node: The one that asks.
        kind: What it asks for. A read waits for the last write before it (Curator's for the first,
            which wakes all readers for each write that goes), anything else for the contender right
            before it.
        within: The contender of the write hold of the same task, for which a read does not wait.
    """
    ahead = nodes[: nodes.index(node)]
    if kind == "read":
        writes = (each for each in reversed(ahead) if not _reads(each) and each != within)
        return next(writes, None)
    return ahead[-1] if ahead else None


def holding(nodes: list[str]) -> tuple[str | None, list[str]]:
    """Return the contender that holds the lock, or the write side, and those that read."""
    readers = list(takewhile(_reads, nodes))
    if readers or not nodes:
        return None, readers
    first, *others = nodes
    number = number_of(first)
    return first, [each for each in others if _reads(each) and number_of(each) == number]


def _reads(node: str) -> bool:
    return "__READ__" in node


def _node_of(name: str) -> str:
    if name in _RESERVED:
        return _encoded(name[0]) + name[1:] if name != ".." else _encoded(name)
    # Nothing else is encoded as a lone "%".
    return _FORBIDDEN_IN_NODE.sub(lambda found: _encoded(found[0]), name) or "%"


def _encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())
