"""Holding something around every call of a plain function, named after the call's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from redisson_py._engine import decorating
from redisson_py.sync._wrapping import Wrapper

P = ParamSpec("P")
R = TypeVar("R")


def decorate(
    source: Wrapper,
    func: Callable[P, R],
    make_block: Callable[[Any], AbstractContextManager[Any]],
) -> Callable[P, R]:
    """Return `func` inside a block that is made for each call, with names from its arguments.

    Raises:
        TypeError: `func` is not a plain function.
        ValueError: A name does not fit the parameters of `func`.
    """
    _check_function(func)
    naming = decorating.Naming(source._shape._names, func)

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        fill = naming.of_call(args, kwargs)
        with make_block(source._derive(lambda each: each._filled(fill))):
            return func(*args, **kwargs)

    return wrapper


def _check_function(func: object) -> None:
    called = getattr(func, "__qualname__", None) or repr(func)
    if isinstance(func, classmethod | staticmethod):
        above = f"@{type(func).__name__}"
        raise TypeError(f"put {above} above this decorator, not below it")
    if inspect.iscoroutinefunction(func) or inspect.isasyncgenfunction(func):
        advice = "take the lock from `redisson_py.Redisson` for an async function"
    elif inspect.isgeneratorfunction(func):
        advice = "a generator would hold it between its steps; write `with` in its body"
    elif inspect.isclass(func):
        advice = "decorate its methods"
    elif not callable(func):
        advice = "write @lock above a `def`"
    else:
        return
    raise TypeError(f"{called} is not a plain function: {advice}")
