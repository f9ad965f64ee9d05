"""The page of the documentation on the permissions that each RocketMQ request needs.

The needs at our broker are in `broker/acl/needs.py`. This file adds those at Java's 4.9.8, from its
PlainAccessValidator and its list of administrators' codes. `make pages` writes the page;
`test_rocketmq_access.py` checks that it is up to date and that no code is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.protocol.codes import COMMANDS, CommandKind
from penstock.rocketmq.protocol.codes import RequestCode as C

PAGE: Final = Path(__file__).parents[2] / "docs" / "spec" / "rocketmq-access.md"
HEADING: Final = "# What each RocketMQ request needs\n"

_ADMIN, _SIGNED = needs.ADMIN.words, needs.SIGNED.words
_GROUP = "SUB of group `consumerGroup`"
JAVA: Final[dict[C, str]] = {
    C.SEND_MESSAGE: "PUB of topic `topic`; nothing for a retry topic",
    C.SEND_MESSAGE_V2: "PUB of topic `b`; where that is a retry topic, SUB of group `a`",
    C.CONSUMER_SEND_MSG_BACK: "SUB of group `group`",
    C.PULL_MESSAGE: "SUB of topic `topic` and group `consumerGroup`",
    C.QUERY_MESSAGE: "SUB of topic `topic`",
    C.HEART_BEAT: "SUB of each consumer group and its topics of the body",
    C.UNREGISTER_CLIENT: _GROUP,
    C.GET_CONSUMER_LIST_BY_GROUP: _GROUP,
    C.UPDATE_CONSUMER_OFFSET: "SUB of topic `topic` and group `consumerGroup`",
    C.UPDATE_AND_CREATE_TOPIC: _ADMIN,
    C.UPDATE_BROKER_CONFIG: _ADMIN,
    C.DELETE_TOPIC_IN_BROKER: _ADMIN,
    C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _ADMIN,
    C.DELETE_SUBSCRIPTIONGROUP: _ADMIN,
}
"""The codes that Java's validator checks; any other needs a valid signature and no permission."""
NOT_IN_JAVA: Final = frozenset(
    (C.LITE_PULL_MESSAGE, C.POP_MESSAGE, C.ACK_MESSAGE, C.BATCH_ACK_MESSAGE, C.PEEK_MESSAGE,
     C.CHANGE_MESSAGE_INVISIBLETIME, C.NOTIFICATION, C.POLLING_INFO, C.QUERY_ASSIGNMENT,
     C.SET_MESSAGE_REQUEST_MODE, C.GET_ALL_MESSAGE_REQUEST_MODE, C.RECALL_MESSAGE,
     C.UPDATE_AND_CREATE_TOPIC_LIST, C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
     C.QUERY_TOPICS_BY_CONSUMER, C.QUERY_SUBSCRIPTION_BY_CONSUMER, C.GET_TOPIC_CONFIG,
     C.GET_SUBSCRIPTIONGROUP_CONFIG)
)  # fmt: skip
"""Codes of 5.x."""

_INTRODUCTION = """\
With [`aclEnable=true`](../security.md#access-rules) every request to a broker, from any address
that the rules do not trust, must be
signed by an account that has the permissions in this table. A code that is not in the table is for
administrators. `make pages` writes the table from the rules that the broker itself uses. The last
column has the needs at Java's broker 4.9.8; with *a valid signature* any account may send the
request there.

`groupPerms` gives permissions for a group, and its retry topic counts as the group. If a request
names a stored message by its position, the permission is needed for that message's topic. While a
message waits for its time of delivery or for the end of its transaction, that is the topic that it
is for. The system topics in which messages wait must be named: `defaultTopicPerm` does not open
them. The broker asks only producers with PUB of the topic for the outcome of an open transaction. A
reply is never sent to a client of another account that uses the asker's client id.
"""
_STRICTER = """\
Producers and consumers that work with a Java broker work here with the same account, except that

- answering requests (`SEND_REPLY_MESSAGE`) needs PUB of `<brokerClusterName>_REPLY_TOPIC`, by
  `defaultTopicPerm` or by name;
- sending batches needs PUB of their topic;
- looking up messages by id, offsets, or offsets by time needs a permission for their topic.

Tools need more. `mqadmin getBrokerConfig`, `cleanExpiredCQ`, `cleanUnusedTopic`,
`deleteExpiredCommitLog`, `producerConnection`, `producer`, `brokerConsumeStats` and all tools that
list every topic or group of a broker (consoles) need an administrator. A metrics exporter does
not: with `defaultTopicPerm: SUB` and `defaultGroupPerm: SUB` it may ask for
`GET_BROKER_RUNTIME_INFO`, `VIEW_BROKER_STATS_DATA` and the figures of topics and groups. It may
then also read messages, so name the topics that it must not see with `DENY`.
"""
_NAME_SERVER = """\
**A name server has no accounts**, nor has Java's: anybody who reaches its port may change routes,
stored values and its configuration, except `kvConfigPath`, `configStorePath`, `configBlackList`,
the properties named there, and TLS. Let only brokers, clients and administrators reach it
(`bindAddress`, a firewall), or require certificates (`tls.server.mode=enforcing`,
`tls.server.need.client.auth=require`). These requests are open to everybody:
"""


def java(code: C) -> str:
    """The needs of Java's broker, in words."""
    return "not in 4.9" if code in NOT_IN_JAVA else JAVA.get(code, _SIGNED)


def page() -> str:
    """The page of the documentation."""
    table = ["| Code | Name | Needs | Java 4.9.8 |", "| --- | --- | --- | --- |", *_rows()]
    named = "\n".join(f"- {kind.code.name} ({kind.code:d})" for kind in _of("name server"))
    parts = (
        HEADING,
        _INTRODUCTION,
        "\n".join(table) + "\n",
        _STRICTER,
        _NAME_SERVER,
        f"{named}.\n",
    )
    return "\n".join(parts)


def _rows() -> Iterable[str]:
    for kind in _of("broker"):
        if kind.code in needs.RULES:
            ours, theirs = needs.of(kind.code).words, java(kind.code)
            same = "the same" if ours == theirs else theirs
            yield f"| {kind.code:d} | {kind.code.name} | {ours} | {same} |"
        else:
            yield f"| {kind.code:d} | {kind.code.name} | {_ADMIN}, and is not answered | obsolete |"


def _of(server: str) -> list[CommandKind]:
    return sorted((kind for kind in COMMANDS if kind.server == server), key=lambda kind: kind.code)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
