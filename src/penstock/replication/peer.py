"""Another node of the same history, asked over its HTTP or HTTPS port."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec

from penstock.cluster.exchange import Endpoint, code_of, parsed
from penstock.core.errors import PenstockError
from penstock.core.malformed import MALFORMED
from penstock.core.reasons import reason
from penstock.net.address import join_host_port
from penstock.net.http.client.answer import Answer, AnswerReader, request_head
from penstock.net.http.client.link import Origin
from penstock.net.http.client.pool import ConnectError, HttpPool
from penstock.net.tls.tls_layer import renewed_client_context
from penstock.node.node_options import NodeOptions
from penstock.node.ports import Ports
from penstock.replication.secret import Secret

CONNECT_S: Final = 2.0
ANSWER_MAX: Final = 512 * 1024 * 1024
"""Bytes of an answer: a batch comes whole, as do the small files; it is otherwise far smaller."""


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

    async def _ask(self, method: str, target: str, body: bytes, seconds: float) -> bytes:
        fields = {**self._fields, "Content-Length": str(len(body))}
        request = request_head(method, self._endpoint.path + target, fields) + body
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
            is_closed = isinstance(error.cause, ConnectionRefusedError)
            text = f"{self.address} cannot be reached: {reason(error.cause)}"
            raise PeerError(text, is_closed=is_closed) from error
        except (OSError, ValueError) as error:
            raise PeerError(f"{self.address}: {reason(error)}") from error
        return self._checked(reader.answer())

    def _checked(self, answer: Answer) -> bytes:
        if answer.status != 200:
            code = code_of(answer.body) or str(answer.status)
            raise PeerError(f"{self.address} refuses: {code}", code, parsed(answer.body))
        return answer.body

    async def close(self) -> None:
        await self._pool.close()
