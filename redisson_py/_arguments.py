"""A call whose arguments do not fit gets an error that says what to write.

Python refuses such a call before any code of ours runs, and says only that an argument is
unexpected. Most of those arguments are another library's: docs/coming-from.md has the table.
A call that fits costs one function call more.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from redisson_py._forks import no_fork
from redisson_py._options import RedissonOptions

F = TypeVar("F", bound=Callable[..., Any])


def _each(words: Mapping[str, str]) -> dict[str, str]:
    return {word: key for key, value in words.items() for word in value.split()}


#: The arguments of other libraries for which we have another name.
RENAMED: Mapping[str, str] = _each(
    {
        "timeout": "blocking_timeout context_manager_timeout max_wait wait waitTime wait_time"
        " wait_timeout",
        "lease_time": "auto_release_time duration ex expiration expire expires expiry lease"
        " leaseTime lock_timeout lock_ttl px ttl",
        "permits": "capacity limit maxCount max_count max_leases value",
    }
)

_BLOCKING = "acquire() waits, and try_acquire() asks once and returns None if it is busy"

#: The arguments of other libraries for which we have none, by what to say about them.
WITHOUT: Mapping[str, str] = _each(
    {
        _BLOCKING: "block blocking context_manager_blocking nowait",
        "waiters are woken and do not poll; the time to wait is timeout=": "busy_wait_sleep_time"
        " delay interval poll_interval retries retry_count retry_delay retry_delay_max"
        " retry_delay_min retry_interval retry_times sleep",
        "without lease_time= a lease is renewed until its release": "auto_extend auto_renew"
        " auto_renewal extension_cadence num_extensions renew",
        "the holder is the current task (in redisson_py.sync: the current thread), and any task may"
        " release its lease": "threadId thread_id thread_local",
        "each acquisition has an owner of its own, lease.owner": "id identifier lock_identifier"
        " owner token",
        "cancel the task that waits": "cancellationToken cancellation_token",
        "the client's option on_release_error says what a block does if its release fails": (
            "raise_on_release_error"
        ),
        "get_fair_lock() and get_fenced_lock() make other kinds of locks": "lock_class",
        "get_red_lock() makes one lock of several, each made by a client of its own": "masters"
        " raise_on_redis_errors",
        "lease.extend(5) sets a lease that ends 5 seconds from now": "additional_time replace_ttl",
        "times are in seconds, or a timedelta": "unit",
    }
)

#: What our own arguments mean, and which calls take them.
_OURS: Mapping[str, tuple[str, str]] = {
    "timeout": ("the time to wait", "acquire(), try_acquire() and hold()"),
    "lease_time": (
        "the time to hold (without it, the lease is renewed until its release)",
        "acquire(), try_acquire() and hold()",
    ),
    "max_hold": ("the time for which to renew", "acquire(), try_acquire() and hold() of a lock"),
    "permits": ("the number of permits", "get_semaphore()"),
    "reentrant": ("whether the holder may acquire it again", "get_lock() and get_fair_lock()"),
}
#: What to say about them where they mean something else, by the method that is called.
_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "get_rate_limiter": {
        "timeout": "timeout=, the time to wait, is an argument of acquire() and try_acquire()",
        "lease_time": "a unit comes back per= seconds after it was taken; write per=",
        "permits": "write rate=, the number of units in each interval",
        _BLOCKING: "acquire() waits, and try_acquire() asks once and returns an Admission, which"
        " is false if it was refused",
    },
    "get_election": {
        "timeout": "timeout=, the time to wait, is an argument of campaign() and acquire()",
        "lease_time": "a leadership is renewed until its end; campaign() has max_hold=",
        "max_hold": "max_hold=, the time to lead at most, is an argument of campaign()",
        "value": "value is an argument of campaign() and acquire()",
        _BLOCKING: "acquire() waits, and with timeout=0 it asks once",
    },
    "get_once": {
        "lease_time": "keep= is the time for which it is remembered that it is done, lease_time= of"
        " hold() the time to run it (without it, the lease is renewed)",
    },
}
_WAITED_FOR = ("get_latch", "get_barrier")
_WITHOUT_LEASE_TIME = (*_WAITED_FOR, "get_semaphore", "acquire", "try_acquire", "hold")


def explained(method: F) -> F:
    """Have a method explain a call whose arguments it does not take."""

    @functools.wraps(method)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return method(*args, **given)
        except TypeError:
            refuse_misfit(method, args, given)
            raise

    return cast("F", as_async(call) if inspect.iscoroutinefunction(method) else call)


def as_async(call: Callable[..., Any]) -> Callable[..., Any]:
    """Have `inspect.iscoroutinefunction` say yes to what returns a coroutine."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(call)
    # It looks at this flag alone, which does not change what a function does.
    code = call.__code__
    call.__code__ = code.replace(co_flags=code.co_flags | inspect.CO_COROUTINE)
    return call


def refuse_misfit(
    method: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> None:
    """Raise if there are arguments that a method does not take.

    Raises:
        TypeError: There are.
    """
    if texts := list(_misfits(method, args, given)):
        raise TypeError(". ".join(texts)) from None


def _misfits(
    method: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
) -> Iterator[str]:
    name, parameters = method.__name__, inspect.signature(method).parameters
    kinds = [each.kind for each in parameters.values()]
    positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    spare = [] if inspect.Parameter.VAR_POSITIONAL in kinds else args[positional:]
    unknown = [each for each in given if each not in parameters]
    called = f"{name}()"
    if name == "__call__":
        called = "a decorator"
        if spare or unknown or len(args) == 1:
            yield "write `@lock` above a function, or `@lock.hold(timeout=5)` for arguments"
    elif spare:
        if "timeout" not in parameters:
            no_time = isinstance(spare[0], bool | str | bytes)
            advice = _listed(parameters) if no_time else _advice("timeout", name, parameters)
        elif isinstance(spare[0], bool):
            advice = _BLOCKING
        else:
            taken = "".join(f"{_short(each)}, " for each in args[1:positional])
            advice = f"write {name}({taken}timeout={_short(spare[0])}), the time to wait"
        yield f"{called} does not take {_short(spare[0])} by position: {advice}"
    for each in unknown:
        yield f"{called} has no argument {each!r}: {_advice(each, name, parameters)}"


def _short(value: object) -> str:
    return repr(value) if isinstance(value, int | float | str) else type(value).__name__


def _listed(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return which arguments a method takes; those that it takes only by name end with `=`."""
    known = [
        f"{each.name}=" if each.kind is inspect.Parameter.KEYWORD_ONLY else each.name
        for each in parameters.values()
        if each.name != "self"
    ]
    return f"its arguments are {', '.join(known)}"


def _advice(word: str, name: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return what to write instead of an argument that a method does not have."""
    ours = RENAMED.get(word, word)
    for each in (word, ours, WITHOUT.get(word, "")):
        if each in (elsewhere := _ELSEWHERE.get(name, {})):
            return elsewhere[each]
    if word in WITHOUT:
        return WITHOUT[word]
    if ours in _OURS:
        meaning, where = _OURS[ours]
        if ours in parameters:
            return f"write {ours}=, {meaning}"
        if ours == "lease_time" and name in _WITHOUT_LEASE_TIME:
            return "there is only the lease_time= of the client"
        if name in _WAITED_FOR:
            where = "wait()"
        text = f"{ours}=, {meaning}, is an argument of {where}"
        if word == "timeout" and name not in _WAITED_FOR:
            text += ". What redis-py calls timeout is lease_time= here"
        return text
    if word in RedissonOptions.__annotations__:
        return f"it is an option of the client, as in Redisson.from_url(url, {word}=...)"
    with no_fork():
        from difflib import get_close_matches

    known = [each for each in parameters if each != "self"]
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else _listed(parameters)
