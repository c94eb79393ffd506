"""Random passwords, and everything that an error reveals."""

from __future__ import annotations

import pickle
import random
import traceback
from urllib.parse import quote

#: Characters with a meaning in a URL, in a format string, in RESP or in a repr.
LETTERS = "abcxyzABCXYZ0189/#?@:%[]&=+;!$'\"\\<>{}|^~*(),._- äé漢℀\u00a0"


def passwords(count: int, seed: int) -> list[str]:
    """Return passwords that are the same in each run."""
    chance = random.Random(seed)
    return ["".join(chance.choices(LETTERS, k=chance.randint(8, 24))) for _ in range(count)]


def parts(password: str) -> set[str]:
    """Return the parts of a password that must not appear: plain, as in a URL, as in a repr."""
    forms = {password, quote(password, safe=""), quote(password), repr(password)[1:-1]}
    return {form[n : n + 5] for form in forms for n in range(max(1, len(form) - 4))}


def chain(error: BaseException) -> list[BaseException]:
    """Return an error with all causes and contexts, hidden or not."""
    found: list[BaseException] = []
    to_see: list[BaseException | None] = [error]
    while to_see:
        each = to_see.pop()
        if each is not None and not any(each is seen for seen in found):
            found.append(each)
            to_see += [each.__cause__, each.__context__]
    return found


def shown(error: BaseException) -> str:
    """Return all texts of an error, and of its causes and contexts."""
    texts = [repr(pickle.loads(pickle.dumps(error)))]
    for each in chain(error):
        texts += [str(each), repr(each), repr(each.args), *getattr(each, "__notes__", [])]
        texts += [repr(vars(each)), *traceback.format_exception(each, chain=False)]
    return "\n".join(texts)


def parts_shown(password: str, *texts: str) -> list[str]:
    """Return the parts of a password that are in texts."""
    return [part for part in parts(password) for text in texts if part in text]
