"""The nodes that may be asked, and what they refuse in the API's words.

A request names a node; only those of the cluster are asked, never any address that somebody sends.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from typing import Final, TypeVar

from penstock.cluster.cluster import Cluster
from penstock.cluster.fanout import Warnings
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import Producer
from penstock.cluster.upstream_errors import RefusedError, UpstreamError
from penstock.net.http.server.v1_api import ApiError

T = TypeVar("T")

_CODE: Final = re.compile(r"[A-Z][A-Z_]{1,63}")


class KnownNodes:
    """The nodes of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def http(self) -> HttpClient:
        return self._cluster.http

    async def all(self, warnings: Warnings) -> list[Producer]:
        """All of them. Raises NoAnswerError when nobody tells."""
        return await self._cluster.producers(warnings)

    async def of_topic(self, topic: str, warnings: Warnings) -> list[Producer]:
        """The nodes that have this topic; ApiError 404 TOPIC_NOT_FOUND. Raises NoAnswerError."""
        found = await self._cluster.topic_producers(topic, warnings)
        if not found:
            raise ApiError(404, "TOPIC_NOT_FOUND")
        return found

    async def named(self, node: str, warnings: Warnings) -> Producer:
        """The one that /api/nodes calls so; ApiError 404 NODE_NOT_FOUND. Raises NoAnswerError."""
        for each in await self.all(warnings):
            if each.http_address == node:
                return each
        raise ApiError(404, "NODE_NOT_FOUND")

    async def address(self, node: str, warnings: Warnings) -> str:
        """The address of a node; one that nsqadmin was given is known without asking around."""
        if node in self._cluster.addresses.nsqds:
            return node
        return (await self.named(node, warnings)).http_address


async def answered(asked: Awaitable[T]) -> T:
    """The answer of a node, or its refusal as ApiError.

    501 NOT_OFFERED where the node does not know the request, as Go's nsqd; its own code for what
    was wrong with the request; 502 for all else.
    """
    try:
        return await asked
    except UpstreamError as error:
        raise refusal(error) from error


def refusal(error: UpstreamError) -> ApiError:
    """A node's error as the API tells it."""
    if isinstance(error, RefusedError):
        if error.is_unknown:
            return ApiError(501, "NOT_OFFERED")
        if error.status in (400, 404) and _CODE.fullmatch(error.code):
            return ApiError(error.status, error.code)
    return ApiError(502, f"UPSTREAM_ERROR: {error}")
