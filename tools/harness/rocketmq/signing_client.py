"""A client that signs its requests, as access rules demand."""

from __future__ import annotations

from typing import Any

from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import sign

from .raw_client import RawClient


class SigningClient(RawClient):
    """One connection of an account."""

    def __init__(self, port: int, access_key: str, secret_key: str) -> None:
        super().__init__(port)
        self._keys = access_key, secret_key

    def request(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        request = super().request(code, body, **fields)
        sign(request, *self._keys)
        return request
