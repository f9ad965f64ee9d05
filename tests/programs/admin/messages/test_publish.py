from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.messages.publish import BODY_MAX

from .conftest import Pair, Site

PATH = "/api/messages/publish"


async def test_a_message_on_the_node_that_is_named(pair: Pair) -> None:
    for node in (0, 1):
        pair.make("tried", node)
    body = {"topic": "tried", "text": "Grüße", "node": pair.names[1]}
    assert await pair.post(PATH, body) == (
        200, {"topic": "tried", "node": pair.names[1], "message": ""})  # fmt: skip
    assert (pair.bodies("tried", 0), pair.bodies("tried", 1)) == ([], ["Grüße"])


async def test_on_any_node_that_has_the_topic(pair: Pair) -> None:
    pair.make("there", 1)
    status, answer = await pair.post(PATH, {"topic": "there", "text": "x"})
    assert (status, answer["node"]) == (200, pair.names[1])


async def test_only_administrators(site: Site) -> None:
    for user in ("", "eve"):
        body = {"topic": "t", "text": "x"}
        assert await site.post(PATH, body, user) == (403, {"message": "FORBIDDEN"})
    assert site.asked() == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": "x"}, 400, "INVALID_TOPIC"),
        ({"topic": "%DLQ%g", "text": "x"}, 400, "INVALID_TOPIC"),
        ({"topic": "t"}, 400, "MISSING_TEXT"),
        ({"topic": "t", "text": "ü" * (BODY_MAX // 2 + 1)}, 400, "TEXT_TOO_LONG"),
        ({"topic": "mistyped", "text": "x"}, 404, "TOPIC_NOT_FOUND"),
        ({"topic": "t", "text": "x", "node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ({"topic": "t", "text": 5}, 400, "INVALID_BODY"),
    ],
)
async def test_refusals(pair: Pair, body: dict[str, Any], status: int, code: str) -> None:
    assert await pair.post(PATH, body) == (status, {"message": code})
    assert (await pair.get("/api/topics/mistyped"))[0] == 404
