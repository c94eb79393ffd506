"""What a judge says of a sabotage."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What a slip in a sabotage looks like, which any run would find.
SLIP = re.compile(r"Error compiling script|user_script:\d+:|SyntaxError|NameError")


@dataclass(frozen=True)
class Verdict:
    """What a judge says of a sabotage.

    Attributes:
        said: "caught", or "caught by timeout", or why it is not.
        by: What caught it: a test, a rule, a seed.
        seconds: What it took.
    """

    said: str
    by: str
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether it was caught."""
        return self.said.startswith("caught")
