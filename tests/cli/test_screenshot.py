"""The picture of `top` in the documentation shows what a real server has."""

from __future__ import annotations

import re
from html import unescape

from tests.cli.screenshot import AGES, draw


async def test_the_picture_shows_holders_and_waiters() -> None:
    picture = await draw()
    text = unescape(re.sub(r"<[^>]+>", "", picture)).replace("\xa0", " ")
    assert picture.startswith("<svg")
    for words in (*AGES, "fenced", "2 readers", "1 free, 2 holders", "2 of 3 wait", "web-1"):
        assert words in text, words
    assert "7 held, 4 queued" in text
    # Nothing of the machine that draws it.
    assert "127.0.0.1" not in text
    assert "https:" not in picture.replace("https://www.textualize.io", "")
