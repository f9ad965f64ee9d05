"""Dead letters that are still to be dealt with: the topics that have some, and pages of them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.admin.cluster.asker import Asker, RefusedError, UpstreamError
from penstock.admin.cluster.fanout import NoAnswerError, Warnings, try_all
from penstock.admin.cluster.producers import Producer
from penstock.admin.messages.nodes import Nodes, answered, is_not_offered, target
from penstock.admin.messages.page import Page, shown
from penstock.admin.messages.peek import paging
from penstock.net.http import Request
from penstock.nsq.dead_letters.topics import CHANNEL, is_rocketmq
from penstock.nsq.http_api import ApiError, Query


class DeadTopic(Struct):
    """A dead-letter topic of a node; no `channel` before the first resend there."""

    topic: str
    letters: int
    is_rocketmq: bool
    channel: str | None = None


class DeadTopics(Struct):
    """The answer of a node: its dead-letter topics."""

    topics: list[DeadTopic]


class Letters:
    """The endpoints that show dead letters."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def topics(self, request: Request) -> Any:
        """GET /api/deadletters: the topics over all nodes; those of Go have none."""
        warnings = Warnings()
        topics: dict[str, dict[str, Any]] = {}
        for producer, dead in await self._all(warnings):
            for each in dead:
                row = topics.setdefault(each.topic, {"topic": each.topic, "letters": 0,
                                        "is_rocketmq": each.is_rocketmq, "nodes": []})  # fmt: skip
                row["letters"] += each.letters
                row["nodes"].append({"node": producer.http_address, "letters": each.letters})
        return {"topics": [topics[name] for name in sorted(topics)], "message": warnings.message}

    async def of_topic(self, topic: str, request: Request) -> Any:
        """GET /api/deadletters/:topic: a page of one node's letters."""
        query, warnings = Query.parse(request.query), Warnings()
        node = query.required("node")
        address = await self._nodes.address(node, warnings)
        page = await answered(letters(self._nodes.asker, address, topic, **paging(query)))
        return shown(page, warnings, node=node, topic=topic)

    async def having(self, topic: str, node: str, warnings: Warnings) -> list[tuple[Producer, int]]:
        """The nodes that have this dead-letter topic, and how many letters: one, or (empty) all.

        ApiError 404 TOPIC_NOT_FOUND when no node has it, and for one node what it answers.
        """
        if node:
            producer = await self._nodes.named(node, warnings)
            told = [(producer, await answered(self._topics_of(producer)))]
        else:
            told = await self._all(warnings)
        found = [
            (producer, each.letters)
            for producer, dead in told
            for each in dead
            if each.topic == topic
        ]
        if not found and warnings.errors and not node:  # who could not be asked may have it
            raise NoAnswerError("\n".join(warnings.errors))
        if not found:
            raise ApiError(404, "TOPIC_NOT_FOUND")
        return found

    async def _all(self, warnings: Warnings) -> list[tuple[Producer, list[DeadTopic]]]:
        """The dead-letter topics of all nodes. Raises NoAnswerError."""
        producers = await self._nodes.all(warnings)
        found = await try_all(producers, self._topics_if_offered)
        if producers and not found.answers:
            raise NoAnswerError("failed to query any nsqd: " + "\n".join(found.errors))
        warnings.add(found.errors)
        return found.answers

    async def _topics_if_offered(self, producer: Producer) -> list[DeadTopic]:
        try:
            return await self._topics_of(producer)
        except UpstreamError as error:
            if is_not_offered(error):
                return []
            raise

    async def _topics_of(self, producer: Producer) -> list[DeadTopic]:
        asker, address = self._nodes.asker, producer.http_address
        return (await asker.get(address, "/deadletters/topics", DeadTopics)).topics


async def letters(asker: Asker, address: str, topic: str, **query: str | int | None) -> Page:
    """A page of those that are left, with these parameters of nsqd's peek. Raises UpstreamError."""
    page = await open_letters(asker, address, topic, **query)
    if page is not None:
        return page
    return await asker.get(address, target("/topic/peek", topic=topic, **query), Page)


async def open_letters(
    asker: Asker, address: str, topic: str, **query: str | int | None
) -> Page | None:
    """A page of those left; None while no channel says what is left: all that the log holds."""
    if is_rocketmq(topic):
        return None
    try:
        asked = target("/channel/peek", topic=topic, channel=CHANNEL, **query)
        return await asker.get(address, asked, Page)
    except RefusedError as error:
        if error.code != "CHANNEL_NOT_FOUND":
            raise
        return None
