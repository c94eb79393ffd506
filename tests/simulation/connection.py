"""A simulated TCP connection: a transport for the client, a session for the server."""

from __future__ import annotations

import asyncio
import enum
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from tests.simulation.hosts import HOST, Host
from tests.simulation.pipes import Pipe
from tests.simulation.resp import CommandReader

if TYPE_CHECKING:
    from tests.simulation.network import Path
    from tests.simulation.server.session import Session


class Signal(enum.Enum):
    """What travels beside bytes."""

    OPEN = "open"
    OPENED = "opened"
    REFUSED = "refused"
    END = "end"
    RESET = "reset"


class Transport(asyncio.Transport):
    """The client's end of a connection."""

    def __init__(self, connection: Connection, protocol: asyncio.Protocol) -> None:
        super().__init__({})
        self._connection = connection
        self._protocol = protocol
        self._closing = False
        self._reading = True
        self._unread: list[object] = []

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.Protocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        unread, self._unread = self._unread, []
        for chunk in unread:
            self.receive(chunk)

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        if not self._closing:
            self._connection.up.put(bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self._closing:
            self._closing = True
            self._connection.client_ended()
            self._connection.loop.call_soon(self._protocol.connection_lost, None)

    def receive(self, chunk: object) -> None:
        """Take what the network brings; called on the client's host."""
        if self._closing:
            return
        if not self._reading:
            self._unread.append(chunk)
        elif isinstance(chunk, bytes):
            self._protocol.data_received(chunk)
        elif chunk is Signal.RESET:
            self._closing = True
            self._protocol.connection_lost(ConnectionResetError("reset by the server"))
        elif chunk is Signal.END and not self._protocol.eof_received():
            self._end()


class Connection:
    """Both ends of a connection, and what is on its way between them.

    Attributes:
        path: Between which host and which server.
        up: From the client.
        down: From the server.
        opened: Done when the server has accepted, or refused.
        session: The server's end, while it is open.
        reader: Finds the commands that the server gets.
        muted: No reply leaves the server any more.
    """

    def __init__(self, path: Path, protocol: asyncio.Protocol) -> None:
        self.path = path
        self.loop = path.loop
        self.host: Host = HOST.get() or self.loop.outside
        self.number = path.network.next_number()
        self.up = Pipe(self.loop, path.up, self._reach_server)
        self.down = Pipe(self.loop, path.down, self._reach_client)
        self.transport = Transport(self, protocol)
        self.opened: asyncio.Future[None] = self.loop.create_future()
        self.session: Session | None = None
        self.muted = False
        self._context: Context = copy_context()
        self.reader = CommandReader()
        self._out: list[bytes] = []

    def __repr__(self) -> str:
        return f"connection {self.number} of {self.host}"

    # The client's end.

    def client_ended(self) -> None:
        """The client has closed: what it has sent before still arrives, perhaps very late."""
        self.path.connections.pop(self, None)
        late = self.path.lateness()
        if late and not self.up.empty:
            self.path.network.trace(self, "still on its way for", f"{late:.3f}")
            self.up.hold_up(late)
        self.up.put(Signal.END)

    def _reach_client(self, chunk: object) -> None:
        self.loop.deliver(self.host, self._context, self._receive, chunk)

    def _receive(self, chunk: object) -> None:
        if self.opened.done():
            self.transport.receive(chunk)
        elif chunk is Signal.OPENED:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectionRefusedError("nobody listens there"))

    # The server's end.

    def _reach_server(self, chunk: object) -> None:
        self.path.node.take(self, chunk)

    def accept(self, session: Session) -> None:
        """The server takes the connection."""
        self.session = session
        self.path.node.sessions[self] = None
        self.down.put(Signal.OPENED)

    def send(self, data: bytes) -> None:
        """Put a reply or a push behind those before; called by the session."""
        if self.session is not None and not self.muted:
            if not self._out:
                self.path.node.to_flush.append(self)
            self._out.append(data)

    def flush(self) -> None:
        """Send what was collected while commands ran."""
        if self._out:
            self.down.put(b"".join(self._out))
            self._out.clear()

    def close(self) -> None:
        """The session closes: after the replies so far."""
        self._end_session(Signal.END)

    def reset(self) -> None:
        """The connection breaks, for both ends."""
        self._out.clear()
        self._end_session(Signal.RESET)

    def _end_session(self, signal: Signal) -> None:
        session, self.session = self.session, None
        self.path.node.sessions.pop(self, None)
        if session is not None:
            session.end()
            if self._out:
                self.down.put(b"".join(self._out))
                self._out.clear()
            self.down.put(signal)

    def ended_by_client(self) -> None:
        """The server has learnt that the client has closed."""
        session, self.session = self.session, None
        self.path.node.sessions.pop(self, None)
        if session is not None:
            session.end()
