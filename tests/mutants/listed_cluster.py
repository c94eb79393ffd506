"""Sabotages of what one connection knows of cluster nodes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_STREAM = "redisson_py/_redis/stream/stream.py"
_WIRE = "redisson_py/_redis/stream/wire.py"

_COMMANDS = "tests/stream/test_cluster_commands.py"
_ORDERS = "tests/stream/test_cluster_wire.py"

_ASKS = """\
            if call.asking:
                wire.put(Call(_ASKING, 0, must=True), ASKING)
"""
_LOADS = """\
            if script is not None and script.text not in self._loads:
                # First use on this connection: loaded in the same write, which saves a NOSCRIPT.
                self._load(script)
"""

CLUSTER = (
    Mutant(
        "a push answers SUNSUBSCRIBE",
        "the server's own sunsubscribe answers nothing",
        _WIRE,
        """\
            if not self._is_oldest("SUNSUBSCRIBE", push[1]):
                self._on_gone(push[1])
""",
        """\
            if not self._is_oldest("SUNSUBSCRIBE", push[1]):
                self._on_gone(push[1])
            else:
                self.in_flight.popleft().succeed(None)
""",
        (_ORDERS,),
    ),
    Mutant(
        "any reply closes a SUNSUBSCRIBE",
        "only HELLO's reply closes it",
        _WIRE,
        '        if call.args[0] != "SUNSUBSCRIBE" or type(reply) is not dict:',
        '        if call.args[0] != "SUNSUBSCRIBE":',
        (_ORDERS,),
    ),
    Mutant(
        "a confirmation answers any subscription",
        "ssubscribe answers only a SSUBSCRIBE of its channel",
        _WIRE,
        "oldest.channel == channel and ",
        "",
        (_ORDERS,),
    ),
    Mutant(
        "a channel that is gone is not told",
        "a listener learns that the slot has moved",
        _WIRE,
        "                self._on_gone(push[1])\n",
        "                pass\n",
        (_ORDERS, _COMMANDS),
    ),
    Mutant(
        "nothing behind SUNSUBSCRIBE",
        "its end is told from the answers of others",
        _STREAM,
        '            self.send(Call(("HELLO",), 0, must=True))\n',
        "            pass\n",
        (_COMMANDS,),
    ),
    Mutant(
        "ASKING before the script is loaded",
        "ASKING and its call are adjacent",
        _STREAM,
        _LOADS + _ASKS,
        _ASKS + _LOADS,
        (_COMMANDS,),
    ),
    Mutant(
        "packed calls go to a sharded node as they are",
        "releases are heard where messages are sharded",
        _STREAM,
        "packed = args if dialect is _MODERN and type(args) is bytes",
        "packed = args if type(args) is bytes",
        (_COMMANDS,),
    ),
    Mutant(
        "renewals are flushed early",
        "a renewal turn is one write",
        _WIRE,
        "        self._early = math.inf\n",
        "",
        (_COMMANDS,),
    ),
    Mutant(
        "what is gathered once is gathered for ever",
        "the server works while a long turn goes on",
        _WIRE,
        "        self._early = _EARLY_COMMANDS\n        self.flush()",
        "        self.flush()",
        (_COMMANDS,),
    ),
)
