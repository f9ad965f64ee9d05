"""Commands: fields as the Java broker reads them, codes, versions, signatures, requests."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.state.clients import Heartbeat
from penstock.rocketmq.protocol import membership, requests
from penstock.rocketmq.protocol.codes import COMMANDS, ResponseCode
from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command, Serialization
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import java_hash
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.signing import sign, signature
from penstock.rocketmq.protocol.versions import version_name


def test_answers_echo_opaque_and_serialisation() -> None:
    request = Command(11, 42, flag=2, serialization=Serialization.BINARY)
    answer = request.answer(19, "none", ext={"minOffset": "0"})
    assert (answer.opaque, answer.flag, answer.code) == (42, 1, 19)
    assert answer.serialization is Serialization.BINARY
    assert answer.is_response
    assert not answer.is_one_way
    assert request.is_one_way


def test_fields() -> None:
    command = Command(
        11, ext={"topic": "T", "queueId": "-1", "offset": "9223372036854775807", "sub": ""}
    )
    assert command.text("topic") == "T"
    assert command.optional("sub") is None
    assert command.optional("nothing") is None
    assert command.int32("queueId") == -1
    assert command.int32("nothing", 7) == 7
    assert command.int64("offset") == (1 << 63) - 1
    assert Command(1).optional("x") is None


@pytest.mark.parametrize(
    ("value", "read"), [("true", True), ("TRUE", True), ("1", False), ("", False), ("yes", False)]
)
def test_booleans(value: str, read: bool) -> None:
    assert Command(1, ext={"b": value}).boolean("b") is read
    assert Command(1).boolean("b") is False


@pytest.mark.parametrize("value", ["", "x", "1.5", "2147483648", "٣", " 1", "1_0", "+", "1e3"])
def test_bad_numbers(value: str) -> None:
    with pytest.raises(BodyError, match="queueId"):
        Command(1, ext={"queueId": value}).int32("queueId")


def test_missing_fields_are_named() -> None:
    for read in (Command.text, Command.int32, Command.int64):
        with pytest.raises(BodyError, match="the field topic is missing"):
            read(Command(1), "topic")


def test_a_code_that_nobody_serves_is_named() -> None:
    answer = Command(9999, 7).unsupported()
    assert (answer.code, answer.opaque, answer.is_response) == (3, 7, True)
    assert answer.remark == " request type 9999 not supported"


# --- codes and versions ---------------------------------------------------------------------------

PAGE_REQUESTS = (
    "10 11 12 13 14 15 17 21 25 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 45 100 101 102 105 "
    "106 200 201 202 203 204 205 206 208 215 216 220 221 222 223 224 300 303 304 305 306 307 308 "
    "309 315 316 317 318 319 320 321 322"
)
PAGE_RESPONSES = "10 11 12 13 14 15 16 17 19 20 21 22 23 24 25 26 206 207 208"


def test_the_table_of_codes_is_whole() -> None:
    assert len(COMMANDS) == len({kind.code for kind in COMMANDS}) == len(Code)
    on_page = {int(code) for code in PAGE_REQUESTS.split()}
    assert {int(kind.code) for kind in COMMANDS if kind.on_page} == on_page
    assert {int(code) for code in PAGE_RESPONSES.split()} <= {int(code) for code in ResponseCode}
    for kind in COMMANDS:
        assert kind.purpose
        assert not set(kind.required) & set(kind.optional)


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (-1, "V3_0_0_SNAPSHOT"), (0, "V3_0_0_SNAPSHOT"), (15, "V3_0_0_FINAL"),
        (16, "V3_0_1_SNAPSHOT"), (45, "V3_0_15"), (46, "V3_1_0_SNAPSHOT"), (63, "V3_1_8"),
        (85, "V3_2_9"), (86, "V3_3_1_SNAPSHOT"), (211, "V3_9_9"), (212, "V4_0_0_SNAPSHOT"),
        (253, "V4_2_0"), (317, "V4_5_2"), (407, "V4_9_7"), (409, "V4_9_8"), (413, "V5_0_0"),
        (479, "V5_3_3"), (611, "V5_9_9"), (612, "HIGHER_VERSION"), (9999, "HIGHER_VERSION"),
    ],
)  # fmt: skip
def test_the_names_of_upstreams_list(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name


# --- signatures -----------------------------------------------------------------------------------


def test_the_signature_is_that_of_java() -> None:
    """Of the values by name, without the signature: "RocketMQ" "v1" "v2", and "body"."""
    signed = "pOZ3zVtKzjqa6sznd8MdOOaEypQ="
    request = Command(Code.SEND_MESSAGE, ext={"b": "v2", "a": "v1"}, body=b"body")
    sign(request, "RocketMQ", "12345678")
    assert request.ext == {"b": "v2", "a": "v1", "AccessKey": "RocketMQ", "Signature": signed}
    assert signature(request, "12345678") == signed.encode()


# --- requests as values ---------------------------------------------------------------------------

QUEUE = MessageQueue("b", 3, "T")
PLACE = {"topic": "T", "queueId": "3"}
GROUP = {"consumerGroup": "G", **PLACE}
LOOK = {
    "consumerGroup": "TOOLS_CONSUMER", **PLACE, "queueOffset": "5", "maxMsgNums": "32",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
    "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "code", "fields"),
    [
        (requests.clusters(), Code.GET_BROKER_CLUSTER_INFO, {}),
        (requests.topic_list(), Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
        (requests.route("T"), Code.GET_ROUTEINFO_BY_TOPIC,
         {"topic": "T", "acceptStandardJsonOnly": "true"}),
        (requests.topic_configs(), Code.GET_ALL_TOPIC_CONFIG, {}),
        (requests.topic_stats("T"), Code.GET_TOPIC_STATS_INFO, {"topic": "T"}),
        (requests.first_offset(QUEUE), Code.GET_MIN_OFFSET, PLACE),
        (requests.end_offset(QUEUE), Code.GET_MAX_OFFSET, PLACE),
        (requests.offset_at(QUEUE, 5), Code.SEARCH_OFFSET_BY_TIMESTAMP, PLACE | {"timestamp": "5"}),
        (requests.committed("G", QUEUE), Code.QUERY_CONSUMER_OFFSET, GROUP),
        (requests.committed("G", QUEUE, setZeroIfNotFound="false"), Code.QUERY_CONSUMER_OFFSET,
         GROUP | {"setZeroIfNotFound": "false"}),
        (requests.commit("G", QUEUE, 7), Code.UPDATE_CONSUMER_OFFSET,
         GROUP | {"commitOffset": "7"}),
        (requests.pull(requests.TOOLS_GROUP, QUEUE, 5, 32), Code.PULL_MESSAGE, LOOK),
    ],
)  # fmt: skip
def test_a_request_has_its_code_and_its_fields(
    asked: requests.Request, code: Code, fields: dict[str, str]
) -> None:
    assert asked == (code, fields, b"")


# --- heartbeats, as a broker reads them -----------------------------------------------------------


def test_a_consumer_what_it_subscribes_to_and_a_producer() -> None:
    wanted = membership.subscription("T", "a || b", version=7, tags=["a", "b"])
    assert (wanted["codeSet"], wanted["tagsSet"]) == ([java_hash("a"), java_hash("b")], ["a", "b"])
    groups = membership.consuming("G", [wanted], membership.PULLS, model="BROADCASTING")
    code, fields, body = membership.heartbeat("me", groups)
    assert (code, fields) == (Code.HEART_BEAT, {})
    found = Heartbeat.parse(body)
    assert (found.client_id, found.producers) == ("me", [])
    (consumer,) = found.consumers
    assert (consumer.group, consumer.model) == ("G", "BROADCASTING")
    assert [each.topic for each in consumer.subscriptions] == ["T"]
    found = Heartbeat.parse(membership.heartbeat("me", membership.producing("P")).body)
    assert (found.consumers, found.producers) == ([], ["P"])
