"""Changes of RocketMQ's topics, groups and messages on a real name server and broker."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.programs.admin.rocketmq.conftest import OverShop
from tests.unit.admin.conftest import Running, until
from tools.harness.rocketmq.shop import DEAD_LETTERS, MESSAGES, QUEUES, TOPIC, Shop

LETTERS = quote(DEAD_LETTERS, safe="")
RESET = {"action": "reset", "topic": TOPIC, "time_ms": -1}


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


async def test_a_message_is_consumed_by_one_member_now(asked: Running, shop: Shop) -> None:
    path = f"/api/rocketmq/messages?topic={TOPIC}&key=trade-0"
    message = (await asked.get(path))["messages"][0]
    for group, result, seen in (
        ("billing", "CR_SUCCESS", shop.consumed), ("failing", "CR_THROW_EXCEPTION", shop.refused),
    ):  # fmt: skip
        before = len(seen)
        (member,) = (await asked.get(f"/api/rocketmq/groups/{group}"))["members"]
        body = {
            "action": "consume", "topic": TOPIC, "ids": [message["offset_id"]], "group": group,
            "client": member["client"],
        }  # fmt: skip
        status, text = await asked.ask("POST", "/api/rocketmq/messages", body)
        assert (status, f'"result":"{result}"' in text) == (200, True), text
        assert len(seen) == before + 1
    body["client"] = "nobody"
    status, text = await asked.ask("POST", "/api/rocketmq/messages", body)
    assert (status, "not online" in text) == (502, True)


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


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "groups/archive", RESET),
        ("POST", "groups/archive", {"action": "change", "retries": 1}),
        ("POST", "groups", {"group": "new"}),
        ("DELETE", "groups/archive", b""),
        ("POST", "topics", {"topic": "new"}),
        ("POST", f"topics/{TOPIC}", {"action": "change"}),
        ("DELETE", f"topics/{TOPIC}", b""),
        ("POST", "messages", {"action": "resend", "topic": TOPIC, "ids": ["x"]}),
        ("POST", "messages", {"action": "consume", "topic": TOPIC, "ids": ["x"]}),
    ],
)
async def test_only_administrators_change_something(
    shop: Shop, over_shop: OverShop, method: str, path: str, body: object
) -> None:
    guarded = await over_shop(admin_users=("alice",))
    path = f"/api/rocketmq/{path}"
    assert (await guarded.ask(method, path, body))[0] == 403
    headers = {"Origin": "http://elsewhere.example", "X_Forwarded_User": "alice"}
    assert (await guarded.ask(method, path, body, **headers))[0] == 403
    assert shop.committed("archive", 0) == 0
    assert TOPIC in (await guarded.get("/api/rocketmq/topics?names=true"))["topics"]


async def test_an_administrator_changes_something(over_shop: OverShop) -> None:
    guarded = await over_shop(admin_users=("alice",))
    resend = {"action": "resend", "topic": TOPIC, "ids": ["x"]}
    status, _ = await guarded.ask(
        "POST", "/api/rocketmq/messages", resend, X_Forwarded_User="alice"
    )
    assert status == 200


async def test_a_topic_is_made_changed_and_deleted(asked: Running) -> None:
    path = "/api/rocketmq/topics/offers"
    new = {"topic": "offers", "read_queues": 2, "write_queues": 2, "perm": 6}
    assert await asked.ask("POST", "/api/rocketmq/topics", new) == (200, '{"message":""}')
    status, text = await asked.ask("POST", "/api/rocketmq/topics", new)
    assert (status, "TOPIC_EXISTS" in text) == (409, True)
    assert len((await asked.get(path))["queues"]) == 2
    change = {"action": "change", "read_queues": 3, "write_queues": 1, "perm": 4}
    assert (await asked.ask("POST", path, change))[0] == 200
    told = await asked.get(path)
    assert (len(told["queues"]), told["brokers"][0]["perm"]) == (3, 4)
    assert (await asked.ask("DELETE", path))[0] == 200
    assert (await asked.ask("GET", path))[0] == 404
    assert (await asked.ask("DELETE", path))[0] == 404


async def test_a_group_is_made_changed_and_deleted(asked: Running, shop: Shop) -> None:
    path = "/api/rocketmq/groups/auditors"
    new = {"group": "auditors", "retries": 3}
    assert await asked.ask("POST", "/api/rocketmq/groups", new) == (200, '{"message":""}')
    status, text = await asked.ask("POST", "/api/rocketmq/groups", new)
    assert (status, "GROUP_EXISTS" in text) == (409, True)
    assert "auditors" in {
        each["group"] for each in (await asked.get("/api/rocketmq/groups"))["groups"]
    }
    assert (await asked.ask("POST", path, {"action": "change", "consumes": False}))[0] == 200
    (config,) = (await asked.get(path))["configs"]
    assert (config["retries"], config["consumes"], config["broadcasts"]) == (3, False, True)
    assert (await asked.ask("POST", path, RESET))[0] == 200
    assert shop.committed("auditors", 0) == 3
    assert (await asked.ask("DELETE", path))[0] == 200
    assert (await asked.ask("GET", path))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("groups/g", b"{", "INVALID_BODY"),
        ("groups/g", {"action": "delete", "topic": "t"}, "INVALID_ACTION"),
        ("groups/g", {"action": "change", "retries": -2}, "INVALID_RETRIES"),
        ("groups/g", {"action": "change", "retries": "2"}, "INVALID_BODY"),
        ("groups", {"group": "a b"}, "INVALID_GROUP"),
        ("topics", {"topic": "a b"}, "INVALID_TOPIC"),
        ("topics/TBW102", {"action": "change"}, "SYSTEM_TOPIC"),
        ("topics/t", {"action": "close"}, "INVALID_ACTION"),
        ("groups/g", {"action": "reset"}, "MISSING_ARG_TOPIC"),
        ("groups/g", {"action": "reset", "topic": "t", "time_ms": -5}, "INVALID_TIME"),
        ("groups/g", {"action": "reset", "topic": "t"}, "INVALID_TIME"),
        ("messages", {"action": "resend", "topic": "t"}, "MISSING_IDS"),
        ("messages", {"action": "consume", "topic": "t", "ids": ["x"]}, "MISSING_ARG_GROUP"),
        ("messages", {"action": "consume", "topic": "t", "ids": ["x", "y"]}, "TOO_MANY_IDS"),
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
