"""Which reply of a connection belongs to which command, and which replies a rule spoils.

A server answers in order, so a queue of the commands in flight is enough, with exceptions:

- RESP3 pushes, and in RESP2 the messages of pub/sub, answer nothing.
- (P|S)(UN)SUBSCRIBE is answered once per channel, in RESP3 by pushes, or by one error.
- Empty commands are not answered.

`CLIENT REPLY OFF` and `MONITOR` break the correspondence and are not supported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

from ._resp_frames import Frame

Match = bytes | Callable[[bytes], bool]
Verdict = Literal["forward", "swallow", "cut"]


@final
@dataclass(slots=True)
class Rule:
    """What to do to the replies of some commands.

    Attributes:
        match: Bytes the command contains, or a test of its bytes.
        verdict: What becomes of the reply.
        uses_left: How many more commands it applies to.
    """

    match: Match
    verdict: Verdict
    uses_left: int

    def takes(self, command: bytes) -> bool:
        """Whether the rule applies to this command; if so, one use is gone."""
        if self.uses_left <= 0:
            return False
        matches = self.match in command if isinstance(self.match, bytes) else self.match(command)
        if matches:
            self.uses_left -= 1
        return bool(matches)


@final
@dataclass(slots=True)
class _Asked:
    """A command in flight."""

    name: bytes
    replies_left: int  # more than one only for subscriptions to several channels
    verdict: Verdict

    @property
    def subscribes(self) -> bool:
        return self.name.endswith(b"subscribe")


@final
class Correspondence:
    """The commands of one connection that wait for their replies."""

    def __init__(self) -> None:
        self._asked: deque[_Asked] = deque()
        self._subscribed = False  # ever; then an array may be a message of RESP2

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, command: Frame, rules: list[Rule]) -> None:
        """Note a command that goes to the server, and the first rule that takes it."""
        if command.items <= 0:
            return
        rule = next((rule for rule in rules if rule.takes(command.data)), None)
        asked = _Asked(command.word, 1, rule.verdict if rule else "forward")
        if asked.subscribes:
            self._subscribed = True
            asked.replies_left = max(1, command.items - 1)
        self._asked.append(asked)

    def answer(self, frame: Frame) -> tuple[Verdict, bool]:
        """Say what to do with a frame from the server, and whether it ends a command."""
        if not self._asked or not self._is_reply(frame):
            return "forward", False
        asked = self._asked[0]
        # An error refuses all channels at once.
        asked.replies_left = 0 if frame.kind in {"-", "!"} else asked.replies_left - 1
        if asked.replies_left <= 0:
            self._asked.popleft()
        return asked.verdict, asked.replies_left <= 0

    def _is_reply(self, frame: Frame) -> bool:
        if self._subscribed or frame.is_push:
            if frame.confirms_subscription:
                # One nobody asked for (a moved slot, UNSUBSCRIBE of all) is no reply.
                return self._asked[0].name == frame.word
            if frame.is_message:
                return False
        return not frame.is_push
