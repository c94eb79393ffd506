"""A small Valkey in pure Python: no I/O, no threads, no time and no randomness of its own.

It runs the files of `lua/` as they are, in Lua 5.1 (`lupa`). What the package and its scripts ask
for is here and nothing else: whatever is missing raises `UnsupportedError` in the test. The tests
beside this file play the same steps on a real server and compare every reply, byte for byte.
"""

from tests.simulation.server.replies import UnsupportedError
from tests.simulation.server.server import Server
from tests.simulation.server.session import Session

__all__ = ["Server", "Session", "UnsupportedError"]
