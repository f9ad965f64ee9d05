"""/api/messages, /rewind, /deferred and /deadletters: ours (docs/spec/nsqadmin-api.md)."""

from __future__ import annotations

from typing import Any, Final

from penstock.admin.messages.dead_letters import DeadLetters, Export
from penstock.admin.messages.deferred import Deferred
from penstock.admin.messages.known_nodes import KnownNodes
from penstock.admin.messages.peek import Peek
from penstock.admin.messages.publish import Publish
from penstock.admin.messages.resend import Resend
from penstock.admin.messages.rewind import Rewind
from penstock.admin.messages.search.replay import Replay
from penstock.admin.messages.search.request import RequestLimit
from penstock.admin.messages.search.search import Search
from penstock.admin.notifications import Notifier
from penstock.admin.permissions import Access
from penstock.admin.read_api import answering, names, text_of
from penstock.admin.router import AdminRouter
from penstock.cluster.cluster import Cluster
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

WALKS_AT_ONCE: Final = 4
"""Requests that read logs at the same time, to search or to replay."""


class MessagesApi:
    """The handlers of all of them."""

    def __init__(self, cluster: Cluster, access: Access, notifier: Notifier) -> None:
        nodes = KnownNodes(cluster)
        walks = RequestLimit(WALKS_AT_ONCE, "TOO_MANY_SEARCHES")
        self._peek = Peek(nodes)
        self._search = Search(nodes, walks)
        self._replay = Replay(nodes, walks, access, notifier)
        self._publish = Publish(nodes, access, notifier)
        self._rewind = Rewind(nodes, access, notifier)
        self._deferred = Deferred(nodes, access, notifier)
        self._letters = DeadLetters(nodes)
        self._resend = Resend(cluster.http, self._letters, access, notifier)
        self._export = Export(cluster.http, self._letters)

    def add_routes(self, router: AdminRouter) -> None:
        router.v1("GET", "/api/messages", answering(self._peek.handle))
        router.v1("POST", "/api/messages/search", answering(self._search.handle))
        router.v1("POST", "/api/messages/replay", answering(self._replay.act))
        router.v1("POST", "/api/messages/publish", answering(self._publish.act))
        router.v1("GET", "/api/rewind", answering(self._rewind.preview))
        router.v1("POST", "/api/rewind", answering(self._rewind.act))
        router.v1("GET", "/api/deferred", answering(self._deferred.page))
        router.v1("POST", "/api/deferred", answering(self._deferred.act))
        router.v1("GET", "/api/deadletters", answering(self._letters.topics))
        router.v1("GET", "/api/deadletters/:topic", answering(self._page))
        router.v1("POST", "/api/deadletters/:topic", answering(self._act))
        router.v1("GET", "/api/deadletters/:topic/export", answering(self._download))

    async def _page(self, request: Request) -> Any:
        return await self._letters.of_topic(text_of(request.param), request)

    async def _act(self, request: Request) -> Any:
        return await self._resend.act(text_of(request.param), request)

    async def _download(self, request: Request) -> Any:
        topic, what = names(request)
        if what != "export":  # the path's last part is any, to the router
            raise ApiError(404, "NOT_FOUND")
        return await self._export.download(topic, request)
