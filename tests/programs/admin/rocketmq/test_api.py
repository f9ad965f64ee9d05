"""What RocketMQ's endpoints tell of a real name server and broker."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, TransactionState
from penstock.rocketmq.client.aio import Producer
from penstock.rocketmq.mqadmin import program as mqadmin
from tests.programs.admin.rocketmq.conftest import OverShop
from tests.unit.admin.conftest import TIMEOUT_S, Running, StartAdmin
from tools.harness.ports import unused_address
from tools.harness.rocketmq.servers import QUICK
from tools.harness.rocketmq.shop import BAD, DEAD_LETTERS, MESSAGES, QUEUES, TOPIC, Shop

COMMIT = TransactionState.COMMIT
LETTERS = quote(DEAD_LETTERS, safe="")


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


async def test_what_wants_attention(asked: Running) -> None:
    told = await asked.get("/api/rocketmq/attention")
    assert told["message"] == ""
    assert {(each["kind"], *each["names"]) for each in told["items"]} >= {
        ("unattended", "archive"),
        ("letters", DEAD_LETTERS),
    }
    rows = (await asked.get("/api/rocketmq/groups"))["groups"]
    (archive,) = [each for each in rows if each["group"] == "archive"]
    page = await asked.get("/api/rocketmq/groups/archive")
    assert [each["kind"] for each in archive["verdicts"]] == ["unattended"]
    assert [each["kind"] for each in page["verdicts"]] == ["unattended"]


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


async def test_of_large_messages_in_one_queue_none_is_left_out(asked: Running, shop: Shop) -> None:
    """The broker gives twelve of them at once."""
    async with Producer("depot", shop.name_server.rocketmq, config=QUICK) as producer:
        for number in range(40):
            message = Message("parcels", bytes(20_000), keys=str(number), sharding_key="x")
            await producer.send(message)
    path = "/api/rocketmq/messages?topic=parcels"
    newest = (await asked.get(path))["messages"]
    assert [each["keys"] for each in newest] == [[str(number)] for number in range(39, 7, -1)]
    seen: dict[str, None] = {}
    begin: int | None = 0
    while begin is not None:
        told = await asked.get(f"{path}&begin={begin}")
        seen |= dict.fromkeys(each["keys"][0] for each in told["messages"])
        begin = told["next_ms"]
    assert list(seen) == [str(number) for number in range(40)]


async def test_what_became_of_a_message(asked: Running) -> None:
    query = f"topic={TOPIC}&key=trade-7"
    (message,) = (await asked.get(f"/api/rocketmq/messages?{query}"))["messages"]
    path = f"/api/rocketmq/tracks?topic={TOPIC}&id={message['offset_id']}"
    states = {each["group"]: each for each in (await asked.get(path))["groups"]}
    assert {group: each["state"] for group, each in states.items()} == {
        "archive": "waits", "billing": "consumed", "failing": "consumed",
    }  # fmt: skip
    assert (len(states["archive"]["members"]), len(states["billing"]["members"])) == (0, 1)
    assert (await asked.ask("GET", path.replace(message["offset_id"], "gone")))[0] == 404


async def test_the_trace_of_a_message(asked: Running) -> None:
    query = f"topic={TOPIC}&key=trade-7"
    (message,) = (await asked.get(f"/api/rocketmq/messages?{query}"))["messages"]

    async def seen(part: str) -> list[tuple[str, bool]]:
        told = await asked.get(f"/api/rocketmq/trace?id={message['id']}")
        return [(each["group"], each["ok"]) for each in told[part]]

    async with asyncio.timeout(TIMEOUT_S):  # clients gather traces for a while, each for itself
        while not (await seen("sent") and ("billing", True) in await seen("consumed")):
            pass
    assert await seen("sent") == [("desk", True)]


async def test_the_end_of_a_transaction_is_in_its_trace(
    asked: Running, shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(QUICK, enable_msg_trace=True)
    producer = Producer(
        "clearing", shop.name_server.rocketmq, config=config, on_check=lambda _: COMMIT
    )
    async with producer:
        found = await producer.send_in_transaction(Message("cleared", b"x"), lambda _: COMMIT)
    async with asyncio.timeout(TIMEOUT_S):  # until the broker has indexed it
        while not (ended := (await asked.get(f"/api/rocketmq/trace?id={found.sent.id}"))["ended"]):
            pass
    assert [(each["group"], each["state"]) for each in ended] == [("clearing", "COMMIT_MESSAGE")]
    mqadmin.run(
        ["queryMsgTraceById", "-n", shop.name_server.rocketmq, "-i", found.sent.id, "--json"]
    )
    traces = json.loads(capsys.readouterr().out)["traces"]
    assert [(each["type"], each["status"]) for each in traces] == [
        ("Pub", "success"), ("End", "COMMIT_MESSAGE"),
    ]  # fmt: skip


async def test_a_broker_without_access_rules_says_so(asked: Running) -> None:
    (broker,) = (await asked.get("/api/rocketmq/accounts"))["brokers"]
    assert (broker["accounts"], "aclEnable is false" in broker["reason"]) == (None, True)


async def test_the_settings_of_a_broker(asked: Running, shop: Shop) -> None:
    (broker,) = (await asked.get("/api/rocketmq/settings"))["brokers"]
    assert (broker["broker"], broker["address"]) == ("broker-a", shop.broker.rocketmq)
    assert broker["settings"]["brokerName"] == "broker-a"


async def test_settings_are_for_administrators(over_shop: OverShop) -> None:
    guarded = await over_shop(admin_users=("alice",))
    assert (await guarded.ask("GET", "/api/rocketmq/settings"))[0] == 403


async def test_accounts_are_for_administrators(over_shop: OverShop) -> None:
    guarded = await over_shop(admin_users=("alice",))
    assert (await guarded.ask("GET", "/api/rocketmq/accounts"))[0] == 403
    allowed = {"X_Forwarded_User": "alice"}
    assert (await guarded.ask("GET", "/api/rocketmq/accounts", **allowed))[0] == 200


async def test_no_name_server_answers(admin: StartAdmin) -> None:
    running = await admin(rocketmq_namesrv_addresses=(unused_address(),))
    status, text = await running.ask("GET", "/api/rocketmq/topics")
    assert status == 502
    assert "UPSTREAM_ERROR: failed to query any name server" in text


async def test_without_the_flag_there_is_nothing(admin: StartAdmin) -> None:
    running = await admin(nsqd_http_addresses=("127.0.0.1:1",))
    assert (await running.ask("GET", "/api/rocketmq"))[0] == 404


async def test_the_history_begins_with_the_start(shop: Shop, admin: StartAdmin) -> None:
    given = (shop.name_server.rocketmq,)
    running = await admin(rocketmq_namesrv_addresses=given, history_interval=SECOND)
    found = await running.get("/api/rocketmq/history")
    while len(found["times"]) < 2:
        await asyncio.sleep(0.05)
        found = await running.get("/api/rocketmq/history")
    assert {len(found[name]) for name in ("in", "out", "lag")} == {len(found["times"])}
    assert found["times"] == sorted(found["times"])
    topics = (await running.get("/api/rocketmq/topics"))["topics"]
    rates = [each["in"] for each in topics if each["kind"] != "system"]
    assert rates
    assert None not in rates, "known at once"
