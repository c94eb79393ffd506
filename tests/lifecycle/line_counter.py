"""Counts the lines of the library that run, to measure work instead of time."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import Any, Self

import redisson_py

_HERE = redisson_py.__path__[0]


class LineCounter:
    """Counts the lines of the library that this thread runs inside a block.

    Frames that began before the block are not counted. A loop counts once for each turn it
    takes, also one inside a comprehension.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._count if frame.f_code.co_filename.startswith(_HERE) else None

    def _count(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.lines += 1
        return self._count
