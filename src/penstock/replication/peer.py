"""Another node of the same history, asked over its HTTP or HTTPS port."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from penstock.cluster.exchange import Endpoint, code_of, parsed
from penstock.core.errors import PenstockError
from penstock.core.malformed import MALFORMED
from penstock.core.reasons import reason
from penstock.net.address import join_host_port
from penstock.net.http.client.answer import Answer, AnswerReader, request_head
from penstock.net.http.client.link import HttpLink, Origin
from penstock.net.http.client.pool import ConnectError, HttpPool
from penstock.net.tasks import spawn
from penstock.net.tls.tls_layer import renewed_client_context
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication import messages
from penstock.replication.messages import Frames, ReplicationError
from penstock.replication.secret import Secret
from penstock.storage.batch import Buffer

CONNECT_S: Final = 2.0
ANSWER_MAX: Final = 1024 * 1024
"""Bytes of an answer to a single request, or of a refusal."""
AHEAD_MAX: Final = 8
"""Answers of a stream that may wait here; a primary sends fewer than these ahead."""


class PeerError(PenstockError):
    """The other node cannot be reached, or refuses; ``code`` is its refusal, ``told`` all of its
    answer. ``is_closed``: its machine answers, and its port is closed.
    """

    def __init__(
        self,
        text: str,
        code: str = "",
        told: dict[str, Any] | None = None,
        *,
        is_closed: bool = False,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.told = told or {}
        self.is_closed = is_closed

    @property
    def successor(self) -> Successor:
        """The node for which the other one has stepped back. Raises PeerError where it does not say
        so.
        """
        try:
            return msgspec.convert(self.told, Successor)
        except MALFORMED as error:
            raise PeerError(f"{self}, and not for which node: {error}", self.code) from self


class Successor(msgspec.Struct):
    """The part of a refusal that names the primary of a higher epoch."""

    epoch: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
    primary: str


class PeerStatus(msgspec.Struct):
    """The part of another node's ``GET /replication`` that decides anything."""

    role: str
    epoch: int
    history: str = ""
    primary: str = ""


class Fence(msgspec.Struct):
    """The word of a primary to the one before: its epoch, its address, where its epoch began."""

    history: str
    epoch: int
    address: str
    fork: dict[str, tuple[int, int]] | None = None


def address_of(options: NodeOptions, ports: Ports) -> str:
    """The address at which other nodes ask this one: the port for followers, else HTTP, or HTTPS if
    that is all there is.
    """
    host = options.broadcast_address
    if ports.replication:
        address = join_host_port(host, ports.replication)
        return f"https://{address}" if ports.is_replication_secure else address
    if not ports.http and ports.https:
        return f"https://{join_host_port(host, ports.https)}"
    return join_host_port(host, ports.broadcast_http)


class Peer:
    """The node at ``host:port`` or at a URL; to be made inside the loop, and closed."""

    def __init__(self, address: str, options: NodeOptions, secret: Secret) -> None:
        """Raise ConfigError for an address or TLS files that cannot be used."""
        self.address = address
        self._endpoint = Endpoint.of(address)
        try:
            host, port = self._endpoint.host_and_port()
        except ValueError as error:
            raise PeerError(f"{address}: {error}") from error
        self._origin = Origin(self._endpoint.is_secure, host, port)
        self._fields = {"Host": self._endpoint.address, "User-Agent": "penstock", **secret.headers}
        tls = None
        if self._endpoint.is_secure:
            tls = renewed_client_context(
                options.tls_root_ca_file, cert_file=options.tls_cert, key_file=options.tls_key
            )
        self._pool = HttpPool(connect_timeout=CONNECT_S, kept_per_origin=1, tls=tls)

    async def post(self, target: str, body: bytes, seconds: float) -> bytes:
        """The answer's body. Raises PeerError."""
        return await self._ask("POST", target, body, seconds)

    async def status(self, seconds: float) -> PeerStatus:
        """The role of the node. Raises PeerError."""
        body = await self._ask("GET", "/replication", b"", seconds)
        try:
            return msgspec.json.decode(body, type=PeerStatus)
        except MALFORMED as error:
            raise PeerError(
                f"{self.address} is not a node that can be followed: {error}"
            ) from error

    async def stream(self, target: str, body: bytes, seconds: float) -> PeerStream:
        """The answers to a request that is answered again and again. Raises PeerError."""
        try:
            async with asyncio.timeout(seconds):
                link = await self._pool.connect(self._origin)
        except TimeoutError:
            raise PeerError(f"{self.address} does not answer") from None
        except ConnectError as error:
            raise self._unreachable(error) from error
        return PeerStream(self, link, self._request("POST", target, body))

    def _request(self, method: str, target: str, body: bytes) -> bytes:
        fields = {**self._fields, "Content-Length": str(len(body))}
        return request_head(method, self._endpoint.path + target, fields) + body

    def _unreachable(self, error: ConnectError) -> PeerError:
        is_closed = isinstance(error.cause, ConnectionRefusedError)
        text = f"{self.address} cannot be reached: {reason(error.cause)}"
        return PeerError(text, is_closed=is_closed)

    async def _ask(self, method: str, target: str, body: bytes, seconds: float) -> bytes:
        request = self._request(method, target, body)
        try:
            async with asyncio.timeout(seconds):
                reader = await self._pool.ask(
                    self._origin, request, lambda: AnswerReader(method, ANSWER_MAX)
                )
        except TimeoutError:
            raise PeerError(f"{self.address} does not answer") from None
        except EOFError:
            raise PeerError(f"{self.address} has closed the connection") from None
        except ConnectError as error:
            raise self._unreachable(error) from error
        except (OSError, ValueError) as error:
            raise PeerError(f"{self.address}: {reason(error)}") from error
        return self.checked(reader.answer())

    def checked(self, answer: Answer) -> bytes:
        """The body of an answer. Raises PeerError for a refusal."""
        if answer.status != 200:
            code, told = code_of(answer.body) or str(answer.status), parsed(answer.body)
            why = f": {told['why']}" if "why" in told else ""
            raise PeerError(f"{self.address} refuses: {code}{why}", code, told)
        return answer.body

    async def close(self) -> None:
        await self._pool.close()


class _StreamReader(AnswerReader):
    """A reader of an answer without an end, whose body goes to ``take`` as it comes."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__("POST", ANSWER_MAX)
        self._take = take

    def feed(self, data: bytes) -> bool:
        if self.status != 200:
            return super().feed(data)
        self._take(data)
        return False

    def on_body(self, body: bytes) -> None:
        if self.status != 200:
            super().on_body(body)
        else:
            self._take(body)


class PeerStream:
    """The answers of another node, over one connection; close it."""

    def __init__(self, peer: Peer, link: HttpLink, request: bytes) -> None:
        self._peer = peer
        self._link = link
        self._reader = _StreamReader(self._take)
        self._frames = Frames(messages.ANSWER_MAX)
        self._answers: deque[memoryview] = deque()
        self._error: PeerError | None = None
        self._has_come = asyncio.Event()
        self._task = spawn(self._run(request), "stream")

    async def _run(self, request: bytes) -> None:
        address = self._peer.address
        try:
            await self._link.ask(request, self._reader)
            self._peer.checked(self._reader.answer())
            error = PeerError(f"{address} has closed the connection")
        except PeerError as refusal:
            error = refusal
        except EOFError:
            error = PeerError(f"{address} has closed the connection")
        except (OSError, ValueError) as failure:
            error = PeerError(f"{address}: {reason(failure)}")
        self._fail(error)

    def _fail(self, error: PeerError) -> None:
        self._error = self._error or error
        self._has_come.set()

    def _take(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            self._answers += self._frames.feed(data)
        except ReplicationError as error:
            self._fail(PeerError(f"{self._peer.address}: {error}"))
        if len(self._answers) > AHEAD_MAX:
            self._fail(PeerError(f"{self._peer.address} sends more than may be on its way"))
        if self._answers:
            self._has_come.set()

    @property
    def has_ended(self) -> bool:
        """True if nothing more comes."""
        return self._error is not None and not self._answers

    async def next(self, seconds: float) -> Buffer:
        """The next answer. Raises PeerError."""
        if not self._answers and self._error is None:
            self._has_come.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._has_come.wait()
            except TimeoutError:
                raise PeerError(f"{self._peer.address} does not answer") from None
        if self._answers:
            return self._answers.popleft()
        assert self._error is not None
        raise self._error

    def say(self, data: bytes) -> None:
        """Send something behind the request."""
        self._link.send(data)

    def close(self) -> None:
        """End the connection."""
        self._task.cancel()
        self._link.abort()
