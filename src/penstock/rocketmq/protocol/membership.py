"""A client's groups as its heartbeats name them: how each consumes, and what it subscribes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.requests import Request

PULLS: Final = "CONSUME_ACTIVELY"
PUSHES: Final = "CONSUME_PASSIVELY"
POPS: Final = "CONSUME_POP"
_FROM_FIRST: Final = "CONSUME_FROM_FIRST_OFFSET"


def subscription(
    topic: str, expression: str = "*", kind: str = "TAG", version: int = 0, tags: Sequence[str] = ()
) -> dict[str, Any]:
    """A topic and what is wanted of it; the newest ``version`` counts."""
    return {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags],
        "expressionType": kind,
        "subString": expression,
        "subVersion": version,
        "tagsSet": list(tags),
        "topic": topic,
    }


def consuming(
    group: str,
    subscriptions: Sequence[dict[str, Any]],
    consume_type: str,
    *,
    model: str = "CLUSTERING",
    from_where: str = _FROM_FIRST,
) -> dict[str, Any]:
    """The groups of a client that consumes as one."""
    consumer = {
        "consumeFromWhere": from_where,
        "consumeType": consume_type,
        "groupName": group,
        "messageModel": model,
        "subscriptionDataSet": list(subscriptions),
        "unitMode": False,
    }
    return {"consumerDataSet": [consumer], "producerDataSet": []}


def producing(group: str) -> dict[str, Any]:
    """The groups of a client that produces as one."""
    return {"consumerDataSet": [], "producerDataSet": [{"groupName": group}]}


def heartbeat(client_id: str, groups: Mapping[str, Any]) -> Request:
    """The request that a client sends again and again: it is there, and in these groups."""
    return Request(RequestCode.HEART_BEAT, {}, fastjson.dumps({"clientID": client_id, **groups}))
