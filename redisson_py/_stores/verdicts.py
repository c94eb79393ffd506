"""What an error of a database means for a request of ours."""

from __future__ import annotations

from typing import Literal, NamedTuple

Verdict = Literal["wrong", "later", "elsewhere", "lost"]
"""What to do about it.

- "wrong": this call is wrong, now and later. Nothing was changed.
- "later": the server says no for now. Nothing was changed, and the same request may pass soon.
- "elsewhere": this server is the wrong one, and another may be at its address soon.
- "lost": the connection is over, or the request in its middle. It may have been carried out.
"""


class Entry(NamedTuple):
    """What a code means.

    Attributes:
        verdict: The meaning.
        source: Where that is from.
    """

    verdict: Verdict
    source: str
