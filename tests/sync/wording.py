"""From the words of asyncio to those of threads, in docstrings.

A task becomes a thread, cancelled becomes interrupted. What is true of one of them only has a
sentence of its own here. What is left of the words of asyncio is an error.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

#: Longest line of a docstring: of a method, in a class.
_WIDTH = 92

#: Sentences that say something else here. Each must be found somewhere.
SENTENCES = {
    # Lease
    "When the lease is lost inside an `async with` block, the body is cancelled and the block"
    " raises `LeaseLostError`, once. An exception of the body is never masked: it propagates with"
    ' the loss as a note. With `on_lost="raise"` the body runs on and the error is raised at its'
    " end.": (
        "Nothing can interrupt a thread. When the lease is lost inside a `with` block, the body"
        " runs on, and the block raises `LeaseLostError` at its end, once. Call `check` before each"
        " step that needs the lock, look at `lost`, or give the client a function as `on_lost`. An"
        " exception of the body is never masked: it propagates with the loss as a note."
    ),
    "A body that blocks the event loop, or that was about to resume, notices at its next await;"
    " `check()` raises at once.": "The body notices the loss only when it asks.",
    # LockLike
    "the body of an `async with` is cancelled at that moment.": (
        "`lease.check()` raises from that moment."
    ),
    "then the lock is released and the body cancelled.": (
        "then the lock is released, and `lease.check()` raises."
    ),
    " Below Python 3.12 `asyncio.wait_for(lock.acquire(), 1)` acquires in a new task, and so do"
    " `gather` and `create_task` on every Python: then release the lease that it returns, or use"
    " `timeout`. If a task holds the lock and awaits a task that wants it, both wait forever;": (
        " If a thread holds the lock and waits for a thread that wants it, both wait forever;"
    ),
    "`LeaseLostError` if a loss cancelled it.": (
        "`LeaseLostError` after it has returned, if the lease was lost meanwhile."
    ),
    "A cancelled acquire holds nothing.": (
        "An acquire that a signal handler interrupts with an exception, such as KeyboardInterrupt,"
        " holds nothing."
    ),
    "web routes and job-queue tasks above": "web routes and tasks of Celery above",
    "`func` is not an `async def`.": "`func` is not a plain function.",
    # Once
    "it is renewed, its loss cancels the block, and `token`": "it is renewed, and `token`",
    "If it is cancelled, it is carried out all the same.": (
        "If it is interrupted, it is carried out all the same."
    ),
    "a cancelled `async with` holds nothing; a cancelled `complete` is carried out.": (
        "an interrupted `with` holds nothing; an interrupted `complete` is carried out."
    ),
    "In PostgreSQL a connection of asyncpg inside a transaction,": (
        "In PostgreSQL a connection of psycopg or psycopg2, Django's `django.db.connection`, or"
        " SQLAlchemy's `session.connection().connection`, inside a transaction,"
    ),
    "A cancelled call is carried out.": "An interrupted call is carried out.",
    "if it is cancelled, `func` is.": "`func` runs in this thread.",
    "An async function, or another one, which must not block.": "A plain function.",
    # RLock and FairLock
    "it may re-enter, and its child tasks do not share the hold.": (
        "it may re-enter, and no other thread shares its hold."
    ),
    # CyclicBarrier
    "It has the methods of `asyncio.Barrier`, with these differences: there, cancelling a waiting"
    " task breaks nothing, and the round waits for another task; `reset` and `abort` reach released"
    " tasks that have not run yet; and the next round starts when all have run. Here, a released"
    " party stays released:": (
        "It differs from `threading.Barrier` in this: a released party stays released:"
    ),
    # RateLimiter
    "a cancelled `acquire` gives back what it was admitted, and its units are free at once.": (
        "an interrupted `acquire` gives back what it was admitted, unless the answer had come."
    ),
    "A cancelled call takes nothing: what it was admitted meanwhile is given back.": (
        "An interrupted call gives back what it was admitted meanwhile, unless the answer had come."
    ),
    # Postgres
    "`await once.complete(result, connection=conn)` records that in a transaction of yours.": (
        "`once.complete(result, connection=conn)` records that in a transaction of yours."
    ),
    # Election
    "A leader's own view ends before the server's, and its body is cancelled then.": (
        "A leader's own view ends before the server's, and `leadership.check()` raises from then"
        " on."
    ),
    "Leave the loop whenever you like, by `break` or by cancellation: nothing is left behind.": (
        "Leave the loop whenever you like, by `break` or by an exception: nothing is left behind."
    ),
    # Redisson
    "Use it as `async with Redisson.from_url(...) as client`, or construct it anywhere (nothing"
    " connects until first use) and call `aclose()` in the end; `async with` opens it again, with"
    " a new id.": (
        "Use it as `with Redisson.from_url(...) as client`, or construct it anywhere, such as in a"
        " module (nothing starts or connects until first use). `close()` ends it, and `with` opens"
        " it again, with a new id. When the interpreter exits it is closed."
    ),
    "It belongs to the event loop of its first use. When that loop is closed, the next use moves"
    " the client to the running loop (a second `asyncio.run`), if it holds nothing and no task"
    " waits. A client that has not connected yet may be used after a fork. Its locks go with it.": (
        "All clients share one thread, in which an event loop works for them. It starts with the"
        " first use. A thread that runs an event loop of its own gets a RuntimeError: use"
        " `redisson_py.Redisson` there. A client that has not connected yet may be used after a"
        " fork, with the locks that it made; one that has raises ClientClosedError in the child."
    ),
    'What a block does when its lease is lost: `"cancel"` cancels its body, `"raise"` lets the body'
    ' run on and raises `LeaseLostError` at its end. Default: "cancel"': (
        "A function that is called with the `LostEvent` of each lost lease, in a thread that all"
        ' clients share: it may block, and use the client. `"raise"` calls nothing. In both cases'
        " the body of a block runs on, and `LeaseLostError` is raised at its end."
        ' Default: "raise"'
    ),
    # Other stores
    "or call `aclose()` in the end; nothing connects until first use.": (
        "or construct it anywhere, such as in a module, and call `close()` in the end; nothing"
        " starts or connects until first use. Locks, threads, forks and the end of the interpreter"
        " are as for `redisson_py.sync.Redisson`."
    ),
    "Use it as `async with`, or call `aclose()` in the end; `async with` opens it again, with a new"
    " id. Nothing connects until first use. It belongs to the event loop of its first use. When"
    " that loop is closed, the next use moves the client to the running loop, if it holds nothing"
    " and no task waits. A client that has connected cannot be used after a fork.": (
        "Use it as `with`, or call `close()` in the end; `with` opens it again, with a new id."
        " Nothing connects until first use. A client that has connected cannot be used after a"
        " fork."
    ),
    ": it releases and disconnects in the background, for as long as the event loop runs.": (
        ", in the background."
    ),
    "Not promised: that a reader may await another task that wants to read.": (
        "Not promised: that a reader may wait for another thread that wants to read."
    ),
    "this client does, and if its process stops, or its event loop is blocked, the end of its"
    " session does.": "this client does, and if its process stops, the end of its session does.",
    # Every client
    "A `Listener`, which is called with acquisitions, waits, losses and outages. Default: None": (
        "A `Listener`, which is called with acquisitions, waits, losses and outages, in the thread"
        " of the event loop: its methods must not block. Default: None"
    ),
}

#: Word by word, in this order.
WORDS = (
    (r"\basync (?=with\b|for\b)", ""),
    (r"\ban `with\b", "a `with"),
    (r"\bawait (?=lock)", ""),
    (r"\bcurrent asyncio task\b", "current thread"),
    (r"(?<!many )\btasks of Celery\b", "\0"),
    (r"\btask", "thread"),
    (r"\bTask", "Thread"),
    ("\0", "tasks of Celery"),
    (r"\ba cancelled\b", "an interrupted"),
    (r"\bA cancelled\b", "An interrupted"),
    (r"\bcancelled\b", "interrupted"),
    (r"\bCancelled\b", "Interrupted"),
    (r"\bCancellation\b", "Interruption"),
    (r"\bcancellation\b", "interruption"),
    (r"\bCancelling\b", "Interrupting"),
    (r"`aclose`", "`close`"),
    (r"`redisson_py\.(?=(postgres|mysql|etcd|zookeeper)\.)", "`redisson_py.sync."),
)

#: What must not be left, but for these.
_LEFT = re.compile(r"async|\bawait|\btasks?\b|cancel|coroutine|event loop", re.IGNORECASE)
_ALLOWED = (
    "asyncio client of redis-py",
    "as asyncpg knows them",
    "redis.asyncio.Redis",
    "tasks of Celery",
    "thread of the event loop",
    "an event loop works for them",
    "runs an event loop of its own",
)

#: The sentences that were found.
found: set[str] = set()

_SECTION = re.compile(r"(Args|Raises|Returns|Attributes):")


def in_words_of_threads(text: str, where: tuple[str, str]) -> str:
    """Return a docstring in the words of threads.

    Raises:
        ValueError: Words of asyncio are left.
    """
    text = "\n".join(_reworded(text)).rstrip()
    left = text
    for allowed in _ALLOWED:
        left = left.replace(allowed, "")
        # As it is wrapped.
        left = re.sub(allowed.replace(" ", r"\s+"), "", left)
    if word := _LEFT.search(left):
        around = left[max(0, word.start() - 60) : word.end() + 60]
        raise ValueError(f"{'.'.join(where)}: {word.group()!r} is left in {around!r}")
    return text


def _reworded(text: str) -> Iterator[str]:
    """Word and wrap each paragraph, list item and argument."""
    for head, tail, body in _items(text):
        if body is None:
            yield head
            continue
        yield from textwrap.wrap(
            _words(body),
            _WIDTH,
            initial_indent=head,
            subsequent_indent=tail,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _items(text: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield indents of the first and of further lines, and the text; or a line as it is."""
    in_section, pending = False, list[str]()
    indents = ("", "")

    for row in [*text.splitlines(), ""]:
        indent = row[: len(row) - len(row.lstrip())]
        section = _SECTION.fullmatch(row)
        starts_item = (in_section and len(indent) == 4) or row.startswith("- ")
        if pending and (not row or section or starts_item):
            yield *indents, " ".join(pending)
            pending.clear()
        if section or not row:
            in_section = in_section or bool(section)
            yield row, "", None
        elif not in_section and len(indent) == 4:
            # An example.
            yield re.sub(r"\basync (?=with\b|for\b)", "", row), "", None
        else:
            if not pending:
                further = " " * 8 if in_section else "  " if row.startswith("- ") else ""
                indents = (indent, further)
            pending.append(row.strip())


def _words(text: str) -> str:
    for sentence, ours in SENTENCES.items():
        if sentence in text:
            found.add(sentence)
            text = text.replace(sentence, ours)
    for word, ours in WORDS:
        text = re.sub(word, ours, text)
    return text
