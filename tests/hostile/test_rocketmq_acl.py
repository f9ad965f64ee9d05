"""A real mqbroker with access rules, and an account that may do nothing.

It sends every request that a broker answers, with valid fields and bodies that name topics, groups
and messages of others: nothing is shown, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.rocketmq.broker.acl import needs
from penstock.rocketmq.protocol import fastjson
from penstock.rocketmq.protocol.codes import COMMANDS
from penstock.rocketmq.protocol.codes import RequestCode as Q
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.testing.daemons import MqBroker, run_mqbroker
from tools.harness.rocketmq.raw_client import RawClient
from tools.harness.rocketmq.signing_client import SigningClient

from .conftest import pull_fields, send_fields

NO_PERMISSION = 16
SECRET = b"for owners only"
RULES = """
accounts:
- {accessKey: administrator, secretKey: 12345678, admin: true}
- accessKey: outsider
  secretKey: 12345678
- accessKey: elsewhere
  secretKey: 12345678
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms: [Private=DENY]
  groupPerms: [owners=DENY]
- accessKey: owner-key
  secretKey: 12345678
  topicPerms: [Private=PUB|SUB]
  groupPerms: [owners=SUB]
"""
OPEN = {code for code, rule in needs.RULES.items() if rule is needs.SIGNED}
"""Requests for which a signature is enough: figures, and a check of a filter."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqBroker]:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "plain_acl.yml").write_text(RULES)
    with run_mqbroker(
        aclEnable="true",
        nsqOpen="true",
        aclDirectory=folder,
        transactionTimeOut=300,
        transactionCheckInterval=100,
        transactionCheckMax=10_000,
    ) as daemon:
        yield daemon


class Site:
    """Clients of all accounts, and the owner's message, half message and group."""

    def __init__(self, port: int) -> None:
        self.admin = SigningClient(port, "administrator", "12345678")
        self.owner = SigningClient(port, "owner-key", "12345678")
        self.outsider = SigningClient(port, "outsider", "12345678")
        self.elsewhere = SigningClient(port, "elsewhere", "12345678")
        for topic in ("Private", "Public"):
            made = self.admin.ask(
                Q.UPDATE_AND_CREATE_TOPIC, topic=topic, defaultTopic="TBW102", readQueueNums=1,
                writeQueueNums=1, perm=6, topicFilterType="SINGLE_TAG", order="false",
            )  # fmt: skip
            assert made.code == 0, made.remark
        assert self.owner.ask(Q.HEART_BEAT, heartbeat("owner", "owners", "Private")).code == 0
        self.message_id = self.send()
        self.offset = OffsetId.parse(self.message_id).offset
        self.half_id = self.send(TRAN_MSG="true", PGROUP="producers")

    def send(self, client: RawClient | None = None, **found: str) -> str:
        fields = send_fields(
            "Private", producerGroup="producers", properties=properties.join(found)
        )
        sent = (client or self.owner).ask(**fields, body=SECRET)
        assert sent.code == 0, sent.remark
        assert sent.ext is not None
        return sent.ext["msgId"]

    def end_fields(self) -> dict[str, Any]:
        return {
            "producerGroup": "producers", "tranStateTableOffset": 0,
            "commitLogOffset": OffsetId.parse(self.half_id).offset, "commitOrRollback": 8,
            "msgId": "x", "topic": "Public",
        }  # fmt: skip

    def stored(self) -> int:
        """The number of messages in the owner's topic."""
        answer = self.owner.ask(Q.GET_MAX_OFFSET, topic="Private", queueId=0)
        return int((answer.ext or {})["offset"])

    def close(self) -> None:
        for client in (self.admin, self.owner, self.outsider, self.elsewhere):
            client.close()


@pytest.fixture
def site(broker: MqBroker) -> Iterator[Site]:
    made = Site(broker.port)
    yield made
    made.close()


def heartbeat(client: str, group: str, topic: str, producers: str = "producers") -> bytes:
    return fastjson.dumps({
        "clientID": client,
        "producerDataSet": [{"groupName": producers}],
        "consumerDataSet": [{"groupName": group, "subscriptionDataSet": [
            {"topic": topic, "subString": "*", "subVersion": 1}]}] if group else [],
    })  # fmt: skip


def fields_of(site: Site, code: int) -> tuple[dict[str, Any], bytes]:
    """A valid request of this code that names the owner's topic, group or message."""
    fields: dict[str, Any] = {
        "topic": "Private", "consumerGroup": "owners", "group": "owners", "srcGroup": "owners",
        "destGroup": "mine", "compareGroup": "owners", "groupName": "owners", "queueId": 0,
        "queueOffset": 0, "offset": site.offset, "commitOffset": 1, "maxMsgNums": 1, "maxNum": 9,
        "invisibleTime": 1000, "pollTime": 0, "bornTime": 1, "initMode": 0,
        "extraInfo": "0 1 1 0 0 b 0",
        "timestamp": 0, "isForce": "true", "index": 0, "count": 9, "key": "k", "beginTimestamp": 0,
        "endTimestamp": 1 << 60, "delayLevel": 0, "clientID": "owner", "clientId": "owner",
        "msgId": site.message_id, "offline": "true", "isOrder": "false",
        "producerGroup": "producers",
        "statsName": "TOPIC_PUT_NUMS", "statsKey": "Private", "sysFlag": 4, "subVersion": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "defaultTopic": "TBW102", "flag": 0,
        "defaultTopicQueueNums": 1, "bornTimestamp": 1, "properties": "", "recallHandle": "x",
    }  # fmt: skip
    short = dict(zip("abcdefghi", ("p", "Private", "TBW102", 1, 0, 0, 1, 0, ""), strict=True))
    queue = {"topic": "Private", "brokerName": "broker-a", "queueId": 0}
    body = fastjson.dumps({
        "topic": "Private", "consumerGroup": "owners", "clientId": "owner", "mqSet": [queue],
        "mode": "POP", "popShareQueueNum": 0, "strategyName": "AVG", "groupName": "owners",
    })  # fmt: skip
    if code == Q.END_TRANSACTION:
        return site.end_fields(), b""
    if code == Q.HEART_BEAT:
        return {}, heartbeat("outsider", "owners", "Private")
    if code == Q.BATCH_ACK_MESSAGE:
        ack = {"c": "owners", "t": "Private", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1,
               "b": "AQ=="}  # fmt: skip
        return {}, fastjson.dumps({"acks": [ack]})
    return {**fields, **short}, body


OF_BROKER = [kind.code for kind in COMMANDS if kind.server == "broker"]


@pytest.mark.parametrize("code", OF_BROKER, ids=lambda code: code.name)
def test_an_account_that_may_do_nothing_does_nothing(site: Site, code: Q) -> None:
    fields, body = fields_of(site, code)
    before = site.stored()
    answer = site.outsider.ask(code, body, **fields)
    assert (answer.code == NO_PERMISSION) == (code not in OPEN), answer
    assert SECRET not in bytes(answer.body)
    assert site.stored() == before


@pytest.mark.parametrize("code", [0, 1, 39, 40, 220, 9999, -1])
def test_codes_that_nobody_has_thought_about_are_refused(site: Site, code: int) -> None:
    assert site.outsider.ask(code).code == NO_PERMISSION
    assert site.admin.ask(code).code == 3


@pytest.mark.parametrize("place", ["message", "half"])
def test_who_may_read_other_topics_reads_no_message_of_this_one(site: Site, place: str) -> None:
    """Neither by its position, nor through a consumer, nor from a topic in which it waits."""
    client = site.elsewhere
    message_id = site.message_id if place == "message" else site.half_id
    offset = OffsetId.parse(message_id).offset
    assert client.ask(Q.HEART_BEAT, heartbeat("mine", "mine", "Public", "mine")).code == 0
    asked = [
        client.ask(Q.VIEW_MESSAGE_BY_ID, offset=offset, topic="Public"),
        client.ask(
            Q.CONSUMER_SEND_MSG_BACK, offset=offset, group="mine", delayLevel=-1,
            originTopic="Public",
        ),
        client.ask(
            Q.CONSUME_MESSAGE_DIRECTLY, consumerGroup="mine", clientId="mine", msgId=message_id
        ),
        client.ask(**pull_fields("RMQ_SYS_TRANS_HALF_TOPIC", 0, "mine")),
        client.ask(Q.CLONE_GROUP_OFFSET, srcGroup="owners", destGroup="mine", topic="Public"),
        client.ask(**pull_fields("%RETRY%owners", 0, "mine")),
    ]  # fmt: skip
    assert [each.code for each in asked] == [NO_PERMISSION] * len(asked)
    assert not any(SECRET in bytes(each.body) for each in asked)


def test_others_do_not_end_a_transaction_nor_are_they_asked_about_it(site: Site) -> None:
    fields = site.end_fields()
    half = site.elsewhere.ask(Q.END_TRANSACTION, **fields)
    assert (half.code, half.remark) == (NO_PERMISSION, "No default permission for topic:Private")
    spy = heartbeat("spy", "", "", "producers")
    for client in (site.outsider, site.elsewhere):
        assert client.ask(Q.HEART_BEAT, spy).code == 0
    check = site.owner.asked(Q.CHECK_TRANSACTION_STATE)  # others are asked in turn, if at all
    for _ in range(3):
        check = site.owner.asked(Q.CHECK_TRANSACTION_STATE)
    assert SECRET in bytes(check.body)
    for client in (site.outsider, site.elsewhere):
        assert client.ask(Q.GET_BROKER_RUNTIME_INFO).code == 0
        assert client.requests == []


def test_the_owner_does_all_that_a_client_does(site: Site) -> None:
    ask = site.owner.ask
    before = site.stored()
    viewed = ask(Q.VIEW_MESSAGE_BY_ID, offset=site.offset)
    assert SECRET in bytes(viewed.body)
    back = ask(Q.CONSUMER_SEND_MSG_BACK, offset=site.offset, group="owners", delayLevel=0)
    assert back.code == 0, back.remark
    queue = {"topic": "Private", "brokerName": "broker-a", "queueId": 0}
    lock = fastjson.dumps({"consumerGroup": "owners", "clientId": "owner", "mqSet": [queue]})
    for code in (Q.LOCK_BATCH_MQ, Q.UNLOCK_BATCH_MQ):
        assert ask(code, lock).code == 0
    offsets: dict[str, Any] = {"consumerGroup": "owners", "topic": "Private", "queueId": 0}
    assert ask(Q.UPDATE_CONSUMER_OFFSET, **offsets, commitOffset=1).code == 0
    assert (ask(Q.QUERY_CONSUMER_OFFSET, **offsets).ext or {})["offset"] == "1"
    assert ask(Q.GET_MAX_OFFSET, topic="Private", queueId=0).code == 0
    check = site.owner.asked(Q.CHECK_TRANSACTION_STATE)
    copy = (check.ext or {})["commitLogOffset"], (check.ext or {})["tranStateTableOffset"]
    fields = {**site.end_fields(), "commitLogOffset": copy[0], "tranStateTableOffset": copy[1]}
    assert ask(Q.END_TRANSACTION, **fields).code == 0
    assert site.stored() == before + 1


def test_the_configuration_is_an_administrators(site: Site, tmp_path: Path) -> None:
    for client in (site.outsider, site.elsewhere, site.owner):
        assert client.ask(Q.GET_BROKER_CONFIG).code == NO_PERMISSION
        assert client.ask(Q.UPDATE_BROKER_CONFIG, b"regionId=x\n").code == NO_PERMISSION
    assert site.admin.ask(Q.GET_BROKER_CONFIG).code == 0
