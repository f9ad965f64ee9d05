"""What requests about messages are refused for, and that only administrators change something.

tests/conformance/test_admin_messages.py has unknown nodes and nodes that offer none of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.messages.publish import BODY_MAX

from .conftest import Pair, Site

ID = "4d20c5c1c8228885"
CANCEL = {"action": "cancel", "topic": "t", "channel": "c", "node": "{node}", "ids": [ID]}
RESEND = {"action": "resend", "all": True}
CHOSEN = {"node": "a", "offset": 0, "id": "x"}


def filled(given: Any, site: Site) -> Any:
    """With the nodes' addresses."""
    if isinstance(given, dict):
        return {name: filled(value, site) for name, value in given.items()}
    names = {"{node}": site.node, "{lookupd}": site.lookupd.address}
    for name, address in names.items():
        given = given.replace(name, address) if isinstance(given, str) else given
    return given


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("messages?topic=t&channel=c", None, 400, "MISSING_ARG_NODE"),
        ("messages?node={node}", None, 400, "MISSING_ARG_TOPIC"),
        ("messages?topic=t&node={lookupd}", None, 404, "NODE_NOT_FOUND"),
        ("messages?topic=t&node={node}&channel=c", None, 501, "NOT_OFFERED"),
        ("messages?topic=%zz&node={node}", None, 400, "INVALID_REQUEST"),
        ("messages?topic=t", None, 501, "NOT_OFFERED"),  # without a log anywhere
        ("deferred?topic=t&node={node}", None, 400, "MISSING_ARG_CHANNEL"),
        ("deferred", CANCEL | {"action": "drop"}, 400, "INVALID_ACTION"),
        ("deferred", CANCEL | {"ids": []}, 400, "MISSING_IDS"),
        ("deferred", CANCEL | {"ids": "all"}, 400, "INVALID_BODY"),
        ("deferred", CANCEL | {"node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ("deadletters/t.dead", None, 400, "MISSING_ARG_NODE"),
        ("deadletters/t.dead/other", None, 404, "NOT_FOUND"),
        ("deadletters/t.dead/export?form=xml", None, 400, "INVALID_ARG_FORM"),
        ("deadletters/t.dead", {"all": True}, 400, "INVALID_ACTION"),
        ("deadletters/t.dead", {"action": "resend"}, 400, "MISSING_IDS"),
        ("deadletters/t.dead", {"action": "resend", "ids": [ID]}, 400, "MISSING_NODE"),
        ("deadletters/t.dead", RESEND | {"to": "no name"}, 400, "INVALID_TO"),
        ("deadletters/t.dead", RESEND | {"to": "t.dead"}, 400, "INVALID_TO"),
        ("deadletters/t.dead", RESEND | {"to": "u", "to_channel": True}, 400, "AMBIGUOUS_TO"),
        ("deadletters/t.dead", RESEND | {"pace": -1}, 400, "INVALID_PACE"),
        ("deadletters/t.dead", RESEND | {"node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ("deadletters/t.dead", RESEND, 404, "TOPIC_NOT_FOUND"),
        ("deadletters/%25DLQ%25g", RESEND, 400, "ROCKETMQ_NOT_RESENDABLE"),
    ],
)
async def test_of_scripted_nodes(
    site: Site, path: str, body: dict[str, Any] | None, status: int, code: str
) -> None:
    path = f"/api/{filled(path, site)}"
    answer = await (site.get(path) if body is None else site.post(path, filled(body, site)))
    assert answer == (status, {"message": code})


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("messages?topic=t&from=yesterday", None, 400, "INVALID_ARG_FROM"),
        ("messages?topic=t&from=5", None, 400, "INVALID_ARG_FROM"),
        ("messages?topic=t&from=after:127.0.0.1:1", None, 400, "INVALID_ARG_FROM"),
        ("messages?topic=t&limit=all", None, 400, "INVALID_ARG_LIMIT"),
        ("messages?topic=none", None, 404, "TOPIC_NOT_FOUND"),
        ("messages/publish", {"text": "x", "topic": ""}, 400, "INVALID_TOPIC"),
        ("messages/publish", {"topic": "%DLQ%g", "text": "x"}, 400, "INVALID_TOPIC"),
        ("messages/publish", {}, 400, "MISSING_TEXT"),
        ("messages/publish", {"text": "ü" * (BODY_MAX // 2 + 1)}, 400, "TEXT_TOO_LONG"),
        ("messages/publish", {"topic": "mistyped", "text": "x"}, 404, "TOPIC_NOT_FOUND"),
        ("messages/publish", {"text": "x", "node": "127.0.0.1:1"}, 404, "NODE_NOT_FOUND"),
        ("messages/publish", {"text": 5}, 400, "INVALID_BODY"),
        ("rewind?topic=t&channel=c", None, 400, "MISSING_ARG_FROM"),
        ("rewind?topic=t&channel=c&from=17", None, 400, "INVALID_ARG_FROM"),
        ("rewind?topic=none&channel=c&from=oldest", None, 404, "TOPIC_NOT_FOUND"),
        ("rewind", {"offsets": {}}, 400, "MISSING_OFFSETS"),
        ("rewind", {"offsets": {"127.0.0.1:1": 0}}, 404, "NODE_NOT_FOUND"),
        ("rewind", {"offsets": {"127.0.0.1:1": -1}}, 400, "INVALID_OFFSETS"),
        ("rewind", {"offsets": {f"a:{n}": 0 for n in range(300)}}, 400, "INVALID_OFFSETS"),
        ("rewind", {"offsets": []}, 400, "INVALID_BODY"),
        ("messages/search", {"topic": "", "kind": "text", "what": "x"}, 400, "MISSING_ARG_TOPIC"),
        ("messages/search", {"kind": "sql", "what": "x"}, 400, "INVALID_ARG_KIND"),
        ("messages/search", {"kind": "text"}, 400, "MISSING_ARG_WHAT"),
        ("messages/search", {"kind": "regex", "what": "("}, 400, "INVALID_ARG_WHAT: missing ): ("),
        ("messages/search", {"kind": "text", "what": "x", "from": "scan:x"}, 400,
         "INVALID_ARG_FROM"),
        ("messages/search", {"kind": "text", "what": "x", "until": "ever"}, 400,
         "INVALID_ARG_FROM"),
        ("messages/search", {"kind": "text", "what": "x", "node": "127.0.0.1:1"}, 404,
         "NODE_NOT_FOUND"),
        ("messages/search", {"topic": "none", "kind": "text", "what": "x"}, 404,
         "TOPIC_NOT_FOUND"),
        ("messages/search", {"limit": "many"}, 400, "INVALID_BODY"),
        ("messages/replay", {"to": ""}, 400, "INVALID_TO"),
        ("messages/replay", {"to": "x"}, 400, "INVALID_ARG_KIND"),
        ("messages/replay", {"to": "no name"}, 400, "INVALID_TO"),
        ("messages/replay", {"to": "x", "kind": "all", "topic": "none"}, 404, "TOPIC_NOT_FOUND"),
        ("messages/replay", {"to": "x", "kind": "regex", "what": "("}, 400,
         "INVALID_ARG_WHAT: missing ): ("),
        ("messages/replay", {"to": "x", "chosen": [CHOSEN]}, 404, "NODE_NOT_FOUND"),
        ("messages/replay", {"to": "x", "chosen": [CHOSEN] * 1001}, 400, "TOO_MANY_IDS"),
        ("messages/replay", {"to": "x", "chosen": "all"}, 400, "INVALID_BODY"),
    ],
)  # fmt: skip
async def test_of_real_nodes(
    pair: Pair, path: str, body: dict[str, Any] | None, status: int, code: str
) -> None:
    """Bodies are about a topic of theirs unless they say otherwise."""
    path, common = (
        f"/api/{path}",
        {"topic": "t", "channel": "c"} if path == "rewind" else {"topic": "t"},
    )
    answer = await (pair.get(path) if body is None else pair.post(path, common | body))
    assert answer == (status, {"message": code})
    assert (await pair.get("/api/topics/mistyped"))[0] == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("deferred", CANCEL),
        ("deadletters/t.dead", RESEND),
        ("messages/publish", {"topic": "t", "text": "x"}),
        ("messages/replay", {"topic": "t", "to": "refused"}),
        ("rewind", {"topic": "t", "channel": "c", "offsets": {}}),
    ],
)
async def test_only_administrators_change_something(
    site: Site, path: str, body: dict[str, Any]
) -> None:
    for user in ("", "eve"):
        answer = await site.post(f"/api/{path}", filled(body, site), user)
        assert answer == (403, {"message": "FORBIDDEN"})
    assert site.asked() == []
