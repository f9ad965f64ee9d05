"""Dead letters that are still to be dealt with: the topics that have some, and pages of them."""

from __future__ import annotations

from typing import Any

from penstock.admin.messages.nodes import Nodes, answered
from penstock.admin.messages.page import shown
from penstock.admin.messages.peek import placed
from penstock.cluster.errors import NoAnswerError, RefusedError
from penstock.cluster.fanout import Warnings, try_all
from penstock.cluster.producers import Producer
from penstock.net.http.server.api import ApiError, Query
from penstock.net.http.server.service import Request
from penstock.nsq.dead_letters.letters import DeadTopic, letters, topics_of


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
        place = await placed(self._nodes.asker, address, topic, query)
        page = await answered(letters(self._nodes.asker, address, topic, **place))
        return shown(page, warnings, node=node, topic=topic)

    async def having(self, topic: str, node: str, warnings: Warnings) -> list[tuple[Producer, int]]:
        """The nodes that have this dead-letter topic, and how many letters: one, or (empty) all.

        ApiError 404 TOPIC_NOT_FOUND when no node has it, and for one node what it answers.
        """
        if node:
            producer = await self._nodes.named(node, warnings)
            told = [(producer, await answered(topics_of(self._nodes.asker, producer.http_address)))]
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
            return await topics_of(self._nodes.asker, producer.http_address)
        except RefusedError as error:
            if not error.is_unknown:
                raise
            return []
