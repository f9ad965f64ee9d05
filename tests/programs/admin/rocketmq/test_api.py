"""RocketMQ's endpoints over a real name server and broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.ports import unused_address
from tests.rocketmq_shop import BAD, DEAD_LETTERS, MESSAGES, QUEUES, TOPIC, Shop, running_shop
from tests.unit.admin.conftest import Running, StartAdmin, until

LETTERS = quote(DEAD_LETTERS, safe="")
RESET = {"action": "reset", "topic": TOPIC, "time_ms": -1}


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with running_shop() as shop:
        yield shop


@pytest.fixture
async def asked(shop: Shop, admin: StartAdmin) -> Running:
    """An nsqadmin over RocketMQ alone."""
    return await over(shop, admin)


async def over(shop: Shop, admin: StartAdmin, **options: Any) -> Running:
    given = (shop.name_server.rocketmq,)
    return await admin(rocketmq_namesrv_addresses=given, history_interval=10**10, **options)


async def test_topics_and_their_queues(asked: Running) -> None:
    told = await asked.get("/api/rocketmq/topics")
    topics = {each["topic"]: each for each in told["topics"]}
    assert told["message"] == ""
    assert (topics[TOPIC]["kept"], topics[TOPIC]["groups"]) == (MESSAGES, 3)
    assert (topics[DEAD_LETTERS]["kind"], topics[DEAD_LETTERS]["kept"]) == ("dlq", BAD)
    one = await asked.get(f"/api/rocketmq/topics/{TOPIC}")
    assert [(each["min"], each["max"]) for each in one["queues"]] == [(0, 3)] * QUEUES
    assert {each["group"] for each in one["groups"]} == {"archive", "billing", "failing"}
    assert [each["group"] for each in one["producers"]] == ["desk"]
    assert (await asked.get(f"/api/rocketmq/topics/{LETTERS}"))["group"] == "failing"
    assert (await asked.ask("GET", "/api/rocketmq/topics/nope"))[0] == 404


async def test_groups_and_their_members(asked: Running) -> None:
    groups = (await asked.get("/api/rocketmq/groups"))["groups"]
    known = {each["group"]: each for each in groups}
    assert (known["billing"]["members"], known["billing"]["lag"]) == (1, 0)
    billing = await asked.get("/api/rocketmq/groups/billing")
    (member,) = billing["members"]
    assert member["language"] == "PYTHON"
    held = [each["held"] for each in billing["queues"] if each["topic"] == TOPIC]
    assert [each["client"] for each in held] == [member["client"]] * QUEUES
    assert (await asked.ask("GET", "/api/rocketmq/groups/nope"))[0] == 404


async def test_servers(asked: Running, shop: Shop) -> None:
    told = await asked.get("/api/rocketmq")
    (broker,) = told["brokers"]
    assert (broker["broker"], broker["address"]) == ("broker-a", shop.broker.rocketmq)
    assert broker["in_today"] >= MESSAGES
    assert told["name_servers"][0]["brokers"] == 1


async def test_messages_by_all_that_they_can_be_found_by(asked: Running) -> None:
    async def found(query: str) -> list[dict[str, Any]]:
        told = await asked.get(f"/api/rocketmq/messages?topic={TOPIC}&{query}")
        assert told["message"] == ""
        return list(told["messages"])

    newest = await found("")
    assert len(newest) == MESSAGES
    (last,) = [each for each in newest if each["keys"] == [f"trade-{MESSAGES - 1}"]]
    assert last["properties"]["desk"] == "north"
    for query in (
        f"id={last['id']}", f"id={last['offset_id']}", f"key=trade-{MESSAGES - 1}",
        "broker=broker-a&queue=3&offset=2",
    ):  # fmt: skip
        assert await found(query) == [last], query
    in_order = await found("begin=0")
    assert [each["stored_ms"] for each in in_order] == sorted(m["stored_ms"] for m in newest)


async def test_a_preview_of_a_reset_and_the_reset(asked: Running, shop: Shop) -> None:
    path = "/api/rocketmq/groups/archive"
    told = await asked.get(f"{path}/offsets?topic={TOPIC}&time_ms=-1")
    assert [(each["committed"], each["wanted"]) for each in told["queues"]] == [(0, 3)] * QUEUES
    assert shop.committed("archive", 0) == 0
    status, _ = await asked.ask("POST", path, RESET)
    assert (status, shop.committed("archive", 0)) == (200, 3)
    await asked.ask("POST", path, {**RESET, "time_ms": 0})
    assert shop.committed("archive", 0) == 0


async def test_members_go_back_to_a_time(asked: Running, shop: Shop) -> None:
    before = len(shop.consumed)
    status, _ = await asked.ask("POST", "/api/rocketmq/groups/billing", {**RESET, "time_ms": 0})
    assert status == 200
    await until(lambda: len(shop.consumed) >= before + MESSAGES)


async def test_a_letter_goes_to_its_group_again_and_to_nobody_else(
    asked: Running, shop: Shop
) -> None:
    told = await asked.get(f"/api/rocketmq/messages?topic={LETTERS}")
    letter = told["messages"][-1]
    others, refused = len(shop.consumed), len(shop.refused)
    body = {"action": "resend", "topic": DEAD_LETTERS, "ids": [letter["offset_id"], "gone"]}
    status, text = await asked.ask("POST", "/api/rocketmq/messages", body)
    assert status == 200
    assert '"not_found":["gone"]' in text
    await until(lambda: len(shop.refused) > refused)
    assert (shop.refused[-1].topic, shop.refused[-1].body) == (TOPIC, letter["body"].encode())
    assert len(shop.consumed) == others


async def test_only_administrators_change_something(shop: Shop, admin: StartAdmin) -> None:
    guarded = await over(shop, admin, admin_users=("alice",))
    resend = {"action": "resend", "topic": TOPIC, "ids": ["x"]}
    changes = (("/api/rocketmq/groups/archive", RESET), ("/api/rocketmq/messages", resend))
    for path, body in changes:
        assert (await guarded.ask("POST", path, body))[0] == 403
        headers = {"Origin": "http://elsewhere.example", "X_Forwarded_User": "alice"}
        assert (await guarded.ask("POST", path, body, **headers))[0] == 403
    assert shop.committed("archive", 0) == 0
    status, _ = await guarded.ask("POST", *changes[1], X_Forwarded_User="alice")
    assert status == 200


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("groups/g", b"{", "INVALID_BODY"),
        ("groups/g", {"action": "delete", "topic": "t"}, "INVALID_ACTION"),
        ("groups/g", {"action": "reset"}, "MISSING_ARG_TOPIC"),
        ("groups/g", {"action": "reset", "topic": "t", "time_ms": -5}, "INVALID_TIME"),
        ("messages", {"action": "resend", "topic": "t"}, "MISSING_IDS"),
        ("messages", {"action": "resend", "topic": "t", "ids": ["x"] * 9}, ""),
        ("messages", {"action": "resend", "topic": "t", "ids": [*map(str, range(101))]},
         "TOO_MANY_IDS"),
    ],
)  # fmt: skip
async def test_requests_that_mean_nothing(
    asked: Running, path: str, body: object, code: str
) -> None:
    status, text = await asked.ask("POST", f"/api/rocketmq/{path}", body)
    assert (status, code in text) == (400 if code else 404, True)


async def test_no_name_server_answers(admin: StartAdmin) -> None:
    running = await admin(rocketmq_namesrv_addresses=(unused_address(),))
    status, text = await running.ask("GET", "/api/rocketmq/topics")
    assert status == 502
    assert "UPSTREAM_ERROR: failed to query any name server" in text


async def test_without_the_flag_there_is_nothing(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:1",))
    assert (await running.ask("GET", "/api/rocketmq"))[0] == 404


async def test_a_message_goes_to_its_topic_again_with_all_that_was_its_own(
    asked: Running, shop: Shop
) -> None:
    path = f"/api/rocketmq/messages?topic={TOPIC}&key=trade-7"
    (before,) = (await asked.get(path))["messages"]
    others = len(shop.consumed)
    body = {"action": "resend", "topic": TOPIC, "ids": [before["id"]]}
    assert (await asked.ask("POST", "/api/rocketmq/messages", body))[0] == 200
    await until(lambda: len(shop.consumed) > others)
    again = shop.consumed[-1]
    assert (again.keys, again.tags, again.properties["desk"]) == (["trade-7"], "good", "north")
    assert again.id != before["id"]
