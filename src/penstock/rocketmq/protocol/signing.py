"""Signatures of requests, by which brokers with access rules know an account.

See RocketMQ spec 1.8.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import sha1
from typing import Final

from penstock.rocketmq.protocol.command import Command

ACCESS_KEY: Final = "AccessKey"
"""The field of a request that names its account."""
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
"""The field with a temporary account's token, which brokers do not read."""
CREDENTIALS: Final = (ACCESS_KEY, SIGNATURE, SECURITY_TOKEN)
"""The fields that are for a broker's eyes only."""


def sign(request: Command, access_key: str, secret_key: str) -> None:
    """Add the fields that name an account and prove it; nothing may change afterwards."""
    request.ext = {**(request.ext or {}), ACCESS_KEY: access_key}
    request.ext[SIGNATURE] = signature(request, secret_key).decode()


def signature(request: Command, secret_key: str, unsigned: str = "") -> bytes:
    """HmacSHA1 of the fields' values in the order of their names, and of the body, in Base64."""
    fields = request.ext or {}
    names = sorted(name for name in fields if name not in (SIGNATURE, unsigned))
    values = "".join([fields[name] for name in names])
    signed = hmac.new(secret_key.encode(), values.encode("utf-8", "replace"), sha1)
    signed.update(request.body)
    return b64encode(signed.digest())
