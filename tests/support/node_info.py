"""What a server of a topology reports about itself."""

from __future__ import annotations

from redisson_py.testing import EmbeddedServer


async def info(node: EmbeddedServer, section: str) -> dict[str, str]:
    """Return one section of INFO."""
    rows = str(await node.execute("INFO", section)).splitlines()
    return dict(row.split(":", 1) for row in rows if ":" in row)


async def calls(node: EmbeddedServer, command: str) -> int:
    """Return how often a node has executed a command."""
    text = (await info(node, "commandstats")).get(f"cmdstat_{command}", "calls=0,")
    return int(text.split(",")[0].removeprefix("calls="))
