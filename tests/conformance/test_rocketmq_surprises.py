"""What has broken clients of RocketMQ, or would have (RocketMQ spec 12), against real daemons.

One test for each point that concerns the broker, named after its number; point 7 and half of 21
are the name server's and are tested there.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest

from penstock.rocketmq.protocol import fastjson, frames
from penstock.rocketmq.protocol.command import Command, Language, Serialization
from penstock.rocketmq.protocol.ids import OffsetId
from penstock.rocketmq.protocol.messages import properties
from penstock.rocketmq.protocol.messages.message import StoredMessage, decode_all
from penstock.testing.daemons import MqBroker, MqNamesrv, run_mqbroker, run_mqnamesrv
from tools.harness.rocketmq.raw_client import RawClient

ADVERTISED = "127.0.0.2"
"""Another address than the one that the broker listens at."""
SUSPEND, SUBSCRIPTION = 2, 4
PREPARED, COMMIT = 4, 8


@pytest.fixture(scope="module")
def name_server() -> Iterator[MqNamesrv]:
    with run_mqnamesrv() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def broker(name_server: MqNamesrv) -> Iterator[MqBroker]:
    with run_mqbroker(
        name_server=name_server.rocketmq, brokerIP1=ADVERTISED, enablePropertyFilter="true",
        messageDelayLevel="0s 0s 0s 0s 0s", transactionTimeOut=50, transactionCheckInterval=100,
        transactionCheckMax=10_000,
    ) as daemon:  # fmt: skip
        yield daemon


@pytest.fixture
def client(broker: MqBroker) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    yield client
    client.close()


@pytest.fixture
def other(broker: MqBroker) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    yield client
    client.close()


@pytest.fixture
def routes(name_server: MqNamesrv) -> Iterator[RawClient]:
    client = RawClient(name_server.port)
    yield client
    client.close()


def fields_of(answer: Command) -> dict[str, str]:
    assert answer.ext is not None, answer
    return answer.ext


def send(
    client: RawClient, topic: str, body: bytes = b"x", text: str = "", **fields: Any
) -> Command:
    """Send to queue 0, unless `e` is given, of a topic that is made with 4 queues."""
    now = int(time.time() * 1000)
    named = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": now, "h": 0,
             "i": text, "j": 0, "k": "false", "m": "false", **fields}  # fmt: skip
    return client.ask(310, body, **named)


def pull(client: RawClient, topic: str, offset: int, queue: int = 0, **fields: Any) -> Command:
    named = {"consumerGroup": "CG", "topic": topic, "queueId": queue, "queueOffset": offset,
             "maxMsgNums": 32, "sysFlag": SUBSCRIPTION, "commitOffset": 0, "subscription": "*",
             "suspendTimeoutMillis": 0, "subVersion": 0, **fields}  # fmt: skip
    return client.ask(11, **named)


def arrived(client: RawClient, topic: str, offset: int = 0) -> StoredMessage:
    """Waits for a message to come."""
    held = {"sysFlag": SUSPEND | SUBSCRIPTION, "suspendTimeoutMillis": 20_000}
    answer = pull(client, topic, offset, **held)
    assert answer.code == 0, answer.remark
    return next(decode_all(answer.body))


def heartbeat(client_id: str, group: str = "", topic: str = "T", producer: str = "") -> bytes:
    subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    consumer = {"groupName": group, "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [subscription]}  # fmt: skip
    value = {
        "clientID": client_id,
        "consumerDataSet": [consumer] if group else [],
        "producerDataSet": [{"groupName": producer}] if producer else [],
    }
    return json.dumps(value).encode()


def raw_answer(broker: MqBroker, header: dict[str, Any], body: bytes = b"") -> tuple[bytes, bytes]:
    """Header and body of the first frame that is answered to a JSON header, as bytes."""
    head = json.dumps({"opaque": 1, "flag": 0, "version": 409, "language": "JAVA", **header})
    data = struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head.encode() + body
    with socket.create_connection(("127.0.0.1", broker.port), 60) as connection:
        connection.sendall(data)
        with connection.makefile("rb") as file:
            length, head_length = struct.unpack(">ii", file.read(8))
            rest = file.read(length - 4)
    return rest[:head_length], rest[head_length:]


# --- headers -------------------------------------------------------------------------------------

ALI_ONS_SEND: dict[str, Any] = {
    "a": "PG", "b": "S1", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1795218354882, "h": 0,
    "i": "KEYS\x01k\x02TAGS\x01A\x02", "j": 0, "k": False,
}  # fmt: skip
CPP_PULL: dict[str, Any] = {
    "consumerGroup": "CG", "topic": "S1", "queueId": 0, "queueOffset": "0", "maxMsgNums": 32,
    "sysFlag": 6, "commitOffset": "0", "subVersion": "0", "suspendTimeoutMillis": "0",
    "subscription": "*", "Signature": "x", "AccessKey": "", "OnsChannel": "ALIYUN",
}  # fmt: skip


def test_01_fields_may_be_numbers_and_booleans_but_answers_have_strings(broker: MqBroker) -> None:
    for header in (
        {"code": 310, "extFields": ALI_ONS_SEND}, {"code": 11, "extFields": CPP_PULL},
        {"code": 310, "extFields": ALI_ONS_SEND, "language": 3, "remark": ""},
    ):  # fmt: skip
        answer = json.loads(raw_answer(broker, header, b"body")[0])
        assert answer["code"] == 0
        assert answer["extFields"]
        assert all(type(value) is str for value in answer["extFields"].values())
        assert type(answer["language"]) is str
        assert {type(answer[name]) for name in ("version", "opaque", "flag")} == {int}


def test_02_answers_have_fields_even_where_there_are_none(broker: MqBroker) -> None:
    queue = {"topic": "S2", "queueId": "0"}
    group = {"consumerGroup": "CG", **queue}
    failing = {**ALI_ONS_SEND, "b": "no good"}
    requests: list[tuple[int, dict[str, Any]]] = [
        (310, ALI_ONS_SEND), (11, CPP_PULL), (14, group), (15, {**group, "commitOffset": "1"}),
        (29, {**queue, "timestamp": "0"}), (30, queue), (31, queue), (32, queue),
        (35, {"clientID": "x"}), (38, {"consumerGroup": "nobody"}), (310, failing),
        (325, {**ALI_ONS_SEND, "b": "DefaultCluster_REPLY_TOPIC"}),
    ]  # fmt: skip
    for code, fields in requests:
        answer = json.loads(raw_answer(broker, {"code": code, "extFields": fields})[0])
        assert type(answer.get("extFields")) is dict, (code, answer)


def test_03_compact_json(broker: MqBroker) -> None:
    send = raw_answer(broker, {"code": 310, "extFields": ALI_ONS_SEND}, b"body")
    assert raw_answer(broker, {"code": 34}, heartbeat("c3", "G3"))[0]
    tables = [raw_answer(broker, {"code": code}) for code in (21, 28, 43, 201, 305)]
    for head, body in (send, *tables):
        value = json.loads(head)
        assert json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() == head
        if body:
            assert fastjson.dumps(fastjson.loads(body)).count(b" ") == body.count(b" ")
            assert b'": ' not in body
            assert b', "' not in body


def test_04_the_answer_has_the_serialisation_of_the_request(client: RawClient) -> None:
    for kind in (Serialization.BINARY, Serialization.JSON, Serialization.BINARY):
        answer = client.ask(30, topic="S4", queueId=0, serialization_=kind)
        assert (answer.serialization, fields_of(answer)) == (kind, {"offset": "0"})
        client.ask(34, heartbeat("c4", "G4", topic=f"S4-{answer.opaque}"), serialization_=kind)
        assert client.asked(40).serialization == kind, "and what the broker asks, too"


# --- heartbeats ----------------------------------------------------------------------------------

CPP_HEARTBEAT = (
    b'{"clientID":"5-cpp@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
    b'"groupName":"G5","messageModel":1,"subscriptionDataSet":[{"subString":"A || B",'
    b'"subVersion":"1795218354882","topic":"S5"}]}]}\n'
)
GO_HEARTBEAT = (
    b'{"clientID":"5-go","producerDataSet":[],"consumerDataSet":[{"groupName":"G5",'
    b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":'
    b'"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"S5",'
    b'"subString":"*","tagsSet":null,"codeSet":null,"subVersion":1795218354882000000,'
    b'"expressionType":"TAG"}],"unitMode":false}]}'
)


def test_05_heartbeats_in_other_accents(client: RawClient, other: RawClient) -> None:
    assert client.ask(34, CPP_HEARTBEAT, version_=63, language_=Language.CPP).code == 0
    found = fastjson.loads(client.ask(203, consumerGroup="G5").body)
    assert (found["consumeType"], found["messageModel"], found["consumeFromWhere"]) == (
        "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET",
    )  # fmt: skip
    subscription = found["subscriptionTable"]["S5"]
    assert subscription["subVersion"] == 1795218354882
    assert (subscription["tagsSet"], subscription["codeSet"]) == (["A", "B"], [65, 66])
    assert found["connectionSet"][0]["language"] == "CPP"
    assert other.ask(34, GO_HEARTBEAT, version_=317, language_=Language.GO).code == 0
    found = fastjson.loads(client.ask(203, consumerGroup="G5").body)
    assert found["subscriptionTable"]["S5"]["subVersion"] == 1795218354882000000
    ids = fastjson.loads(client.ask(38, consumerGroup="G5").body)["consumerIdList"]
    assert ids == ["5-cpp@DEFAULT", "5-go"]
    for data in (b'{"clientID":"x","consumerDataSet":[{"groupName":"G5b","subscriptionData":[]}]}',
                 b'{"clientID":"x"}'):  # fmt: skip
        assert other.ask(34, data).code == 0


def test_13_the_retry_topic_has_a_route_right_after_the_first_heartbeat(
    client: RawClient, routes: RawClient
) -> None:
    registered(routes)
    assert routes.ask(105, topic="%RETRY%G13").code == 17
    assert client.ask(34, heartbeat("c13", "G13")).code == 0
    route = fastjson.loads(routes.ask(105, topic="%RETRY%G13").body)
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)


def test_19_a_client_may_leave_the_group_of_no_name(client: RawClient) -> None:
    client.ask(34, heartbeat("c19", "G19", producer="P19"))
    answer = client.ask(35, clientID="c19", producerGroup="", consumerGroup="G19")
    assert (answer.code, client.ask(38, consumerGroup="G19").code) == (0, 1)
    assert client.ask(204, producerGroup="P19").code == 0
    answer = client.ask(35, clientID="c19", producerGroup="P19", consumerGroup="")
    assert (answer.code, client.ask(204, producerGroup="P19").code) == (0, 1)
    groups = fastjson.loads(client.ask(201).body)["subscriptionGroupTable"]
    assert "G19" in groups
    assert "" not in groups


# --- sends ---------------------------------------------------------------------------------------


def test_06_one_is_not_true(client: RawClient) -> None:
    long = {"producerGroup": "PG", "topic": "S6", "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0,
            "properties": "", "batch": "1", "unitMode": "0"}  # fmt: skip
    body = b"\x00\x00\x00\x16" + bytes(12) + b"\x00\x00\x00\x00" + b"\x00\x00"
    assert client.ask(10, body, version_=63, **long).code == 0
    (message,) = decode_all(pull(client, "S6", 0).body)
    assert message.body == body, "one message, as it is"


def test_12_request_and_reply_find_their_cluster(client: RawClient, routes: RawClient) -> None:
    registered(routes)
    assert routes.ask(105, topic="DefaultCluster_REPLY_TOPIC").code == 0
    send(client, "S12", text="TAGS\x01A")
    (message,) = decode_all(pull(client, "S12", 0).body)
    assert properties.parse(message.properties)["CLUSTER"] == "DefaultCluster"


def test_14_ids_name_the_advertised_address(
    broker: MqBroker, client: RawClient, routes: RawClient
) -> None:
    registered(routes)
    answer = send(client, "S14", b"body")
    message_id = OffsetId.parse(fields_of(answer)["msgId"])
    assert str(message_id.host) == f"{ADVERTISED}:{broker.port}"
    cluster = routes.ask(106).body
    assert f"{ADVERTISED}:{broker.port}".encode() in cluster
    found = client.ask(33, offset=message_id.offset)
    (message,) = decode_all(found.body)
    assert (message.body, str(message.store_host)) == (b"body", str(message_id.host))


def test_15_widths_and_signs_in_stored_messages(client: RawClient) -> None:
    body = next(b"%d" % n for n in range(100) if crc32(b"%d" % n) & 0x80000000)
    text = f"k\x01{'v' * 32700}\x02"
    assert send(client, "S15", body, text).code == 0
    frame = pull(client, "S15", 0).body
    (crc,) = struct.unpack_from(">I", frame, 8)
    assert crc == crc32(body) & 0x7FFFFFFF
    born_ip, born_port = struct.unpack_from(">4si", frame, 48)
    assert (socket.inet_ntoa(born_ip), born_port) == (
        "127.0.0.1", int(client.address.rpartition(":")[2]),
    )  # fmt: skip
    assert struct.unpack_from(">4s", frame, 64)[0] == socket.inet_aton(ADVERTISED)
    (message,) = decode_all(frame)
    properties_length = len(message.properties.encode())
    assert struct.unpack_from(">h", frame, len(frame) - properties_length - 2) == (
        properties_length,
    )
    too_long = f"k\x01{'v' * 32765}\x02"
    assert send(client, "S15", body, too_long).code == 13


def test_22_a_unique_key_of_an_ipv6_host(client: RawClient) -> None:
    key = "FD00" + "0" * 28 + "203625FFD2B2766F6160D000"
    assert len(key) == 56
    assert send(client, "S22", b"six", f"UNIQ_KEY\x01{key}\x02").code == 0
    asked: dict[str, Any] = {"topic": "S22", "key": key, "maxNum": 32, "beginTimestamp": 0,
             "endTimestamp": (1 << 63) - 1, "_UNIQUE_KEY_QUERY": "true"}  # fmt: skip
    deadline = time.monotonic() + 30
    while (answer := client.ask(12, **asked)).code == 22 and time.monotonic() < deadline:
        time.sleep(0.01)  # the index follows the log
    (message,) = decode_all(answer.body)
    assert message.body == b"six"


def test_24_a_queue_that_there_is_not(client: RawClient) -> None:
    assert send(client, "S24").code == 0
    assert send(client, "S24", e=3).code == 0
    assert send(client, "S24", e=4).code == 1
    answer = send(client, "S24", e=-1)
    assert answer.code == 0
    assert 0 <= int(fields_of(answer)["queueId"]) < 4
    assert pull(client, "S24", 0, queue=4).code == 1


# --- offsets and pulls ---------------------------------------------------------------------------


def test_08_a_new_group_begins_at_0_of_a_young_queue(client: RawClient) -> None:
    asked: dict[str, Any] = {"consumerGroup": "G8", "topic": "S8", "queueId": 0}
    assert fields_of(client.ask(14, **asked)) == {"offset": "0"}, "unknown topic"
    for _ in range(3):
        send(client, "S8")
    assert fields_of(client.ask(14, **asked)) == {"offset": "0"}
    assert fields_of(client.ask(14, **{**asked, "queueId": 1})) == {"offset": "0"}, "empty queue"
    assert client.ask(14, setZeroIfNotFound="false", **asked).code == 22
    client.ask(15, commitOffset=2, **asked)
    assert fields_of(client.ask(14, **asked)) == {"offset": "2"}


def test_09_codes_of_pulls(client: RawClient) -> None:
    def code_and_next(offset: int, queue: int = 0, **fields: Any) -> tuple[int, str]:
        answer = pull(client, "S9", offset, queue, **fields)
        return answer.code, fields_of(answer)["nextBeginOffset"]

    for _ in range(2):
        send(client, "S9", text="TAGS\x01A\x02")
    assert code_and_next(0) == (0, "2")
    assert code_and_next(1) == (0, "2")
    assert code_and_next(0, queue=1) == (19, "0"), "a queue that never had a message"
    assert code_and_next(1, queue=1) == (21, "0")
    assert code_and_next(2) == (19, "2"), "at the end"
    assert code_and_next(3) == (21, "2"), "behind it"
    assert code_and_next(0, subscription="B") == (20, "2"), "nothing wanted"
    held = {"sysFlag": SUSPEND | SUBSCRIPTION, "suspendTimeoutMillis": 60_000}
    assert code_and_next(3, **held)[0] == 21, "at once, however long it may be held"
    assert code_and_next(0, subscription="B", **held)[0] == 20
    start = time.monotonic()
    assert code_and_next(2, **{**held, "suspendTimeoutMillis": 200}) == (19, "2")
    assert time.monotonic() - start >= 0.19
    assert pull(client, "nowhere", 0).code == 17


def test_18_commits_are_answered_unless_they_are_one_way(client: RawClient) -> None:
    asked: dict[str, Any] = {"consumerGroup": "G18", "topic": "S18", "queueId": 0}
    client.tell(15, commitOffset=1, **asked)
    assert fields_of(client.ask(14, **asked)) == {"offset": "1"}
    for language in (Language.CPP, Language.GO, Language.JAVA):
        assert client.ask(15, commitOffset=5, language_=language, **asked).code == 0
    assert client.ask(15, commitOffset=-1, **asked).code == 0, "as ali-ons does"
    assert fields_of(client.ask(14, **asked)) == {"offset": "5"}
    client.tell(37, producerGroup="x", tranStateTableOffset=0, commitLogOffset=0,
                commitOrRollback=8, msgId="x")  # fmt: skip
    assert fields_of(client.ask(14, **asked)) == {"offset": "5"}
    assert client.requests == [], "one-way requests are not answered, not even when they fail"


# --- messages that take detours ------------------------------------------------------------------


def begin_transaction(client: RawClient, topic: str) -> dict[str, Any]:
    """Send a half message; the fields that tell which one it is."""
    client.ask(34, heartbeat(f"producer of {topic}", producer="TPG"))
    text = properties.join({"TRAN_MSG": "true", "PGROUP": "TPG", "UNIQ_KEY": "u" * 32})
    sent = fields_of(send(client, topic, b"half", text, f=PREPARED))
    return {
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(OffsetId.parse(sent["msgId"]).offset),
    }


def test_10_a_check_of_a_half_message_names_its_new_offsets(client: RawClient) -> None:
    first = begin_transaction(client, "S10")
    check = client.asked(39)
    assert check.is_one_way
    fields = fields_of(check)
    now: dict[str, Any] = {name: fields[name] for name in first}
    assert now["tranStateTableOffset"] != first["tranStateTableOffset"]
    assert now["commitLogOffset"] != first["commitLogOffset"]
    assert OffsetId.parse(fields["offsetMsgId"]).offset == int(now["commitLogOffset"])
    assert fields["msgId"] == fields["transactionId"] == "u" * 32
    (message,) = decode_all(check.body)
    assert (message.topic, message.queue, message.body) == ("S10", 0, b"half")
    ended = client.ask(37, producerGroup="TPG", commitOrRollback=COMMIT, msgId="u" * 32,
                       fromTransactionCheck="true", **now)  # fmt: skip
    assert ended.code == 0
    assert arrived(client, "S10").body == b"half"


def test_11_delivered_messages_tell_where_they_have_been(client: RawClient) -> None:
    send(client, "S11", b"late", "DELAY\x019\x02TAGS\x01A\x02")
    delayed = arrived(client, "S11")
    found = properties.parse(delayed.properties)
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("S11", "0")
    assert (found["DELAY"], found["TAGS"]) == ("5", "A"), "the longest level that there is"

    assert client.ask(36, offset=delayed.physical_offset, group="G11", delayLevel=0).code == 0
    retried = properties.parse(arrived(client, "%RETRY%G11").properties)
    assert (retried["REAL_TOPIC"], retried["REAL_QID"]) == ("%RETRY%G11", "0")
    assert (retried["DELAY"], retried["RETRY_TOPIC"]) == ("3", "S11")
    assert retried["ORIGIN_MESSAGE_ID"] == delayed.offset_id

    half = begin_transaction(client, "S11b")
    client.ask(37, producerGroup="TPG", commitOrRollback=COMMIT, msgId="u", **half)
    committed = properties.parse(arrived(client, "S11b").properties)
    assert (committed["TRAN_MSG"], committed["PGROUP"]) == ("true", "TPG")
    assert (committed["REAL_TOPIC"], committed["REAL_QID"]) == ("S11b", "0")


# --- administration ------------------------------------------------------------------------------


def test_16_a_reset_has_the_form_of_its_administrator(client: RawClient, other: RawClient) -> None:
    other.ask(34, heartbeat("c16", "G16"), language_=Language.CPP)
    send(client, "S16")
    for queue in range(4):
        other.ask(15, consumerGroup="G16", topic="S16", queueId=queue, commitOffset=0)
    reset: dict[str, Any] = {"topic": "S16", "group": "G16", "timestamp": 0, "isForce": "true"}
    for language, kind in ((Language.JAVA, dict), (Language.CPP, list), (Language.GO, dict)):
        answer = client.ask(222, language_=language, **reset)
        assert answer.code == 0
        table = fastjson.loads(other.asked(220).body)["offsetTable"]
        assert (type(table), len(table)) == (kind, 4)
        assert answer.body.startswith(b'{"offsetTable":{{"brokerName":"broker-a",')


def test_17_codes_that_the_source_page_forgets(
    client: RawClient, other: RawClient, routes: RawClient
) -> None:
    send(client, "S17", b"body")
    fields: dict[str, Any] = {"consumerGroup": "CG", "topic": "S17", "queueId": 0, "queueOffset": 0,
              "maxMsgNums": 10, "sysFlag": 20, "commitOffset": 0, "subscription": "*",
              "suspendTimeoutMillis": 0, "subVersion": 0, "ReqT": "0"}  # fmt: skip
    (message,) = decode_all(client.ask(361, **fields).body)
    assert message.body == b"body"

    for text, code in (("a > 1 AND b = 'x'", 0), ("a > > 1", 23)):
        data = {"topic": "S17", "subString": text, "expressionType": "SQL92"}
        body = fastjson.dumps({"clientId": "c", "group": "G", "subscriptionData": data})
        assert client.ask(46, body).code == code

    client.ask(34, heartbeat("asker17", "G17", producer="P17"))
    text = properties.join({"MSG_TYPE": "reply", "REPLY_TO_CLIENT": "asker17"})
    short = {"a": "P17", "b": "DefaultCluster_REPLY_TOPIC", "c": "TBW102", "d": 4, "e": 0, "f": 0,
             "g": 1, "h": 0, "i": text}  # fmt: skip
    sent = other.begin(325, b"reply", **short)
    pushed = client.asked(326)
    assert pushed.body == b"reply"
    assert "PUSH_REPLY_TIME" in properties.parse(fields_of(pushed)["properties"])
    client.reply(pushed)
    assert other.answer_to(sent).code == 0

    answer = client.ask(26)
    assert b"brokerName=broker-a\n" in answer.body
    assert set(json.loads(fields_of(answer)["version"])) >= {"counter", "timestamp"}
    assert fastjson.loads(client.ask(351, topic="S17").body)["topicName"] == "S17"
    assert client.ask(207, groupName="G17").code == 0
    registered(routes)
    answer = routes.ask(327, brokerName="broker-a")
    assert int(fields_of(answer)["addTopicCount"]) > 0


def test_20_both_spellings_of_transferred(client: RawClient) -> None:
    table = fastjson.loads(client.ask(28).body)["table"]
    assert table["getTransferedTps"] == table["getTransferredTps"]
    assert all(type(value) is str for value in table.values())


def test_21_unknown_codes_are_answered(client: RawClient) -> None:
    for code in (9999, 13, 27):
        answer = client.ask(code)
        assert (answer.code, answer.remark) == (3, f" request type {code} not supported")


def test_23_codes_above_16_bits_come_in_json_only(client: RawClient) -> None:
    answer = client.ask(200999)
    assert (answer.code, answer.remark) == (3, " request type 200999 not supported")
    answer = client.ask(200050)
    assert answer.code != 3, "POP_MESSAGE, not what its lower 16 bits are"
    with pytest.raises((ValueError, struct.error)):
        frames.encode(Command(200050, serialization=Serialization.BINARY))


def test_25_deleting_what_is_not_there_succeeds(client: RawClient) -> None:
    assert client.ask(215, topic="S25").code == 0
    send(client, "S25")
    assert client.ask(215, topic="S25").code == 0
    assert client.ask(215, topic="S25").code == 0
    assert pull(client, "S25", 0).code == 17


def registered(routes: RawClient) -> None:
    """Waits for the broker to be known to the name server."""
    deadline = time.monotonic() + 30
    while b"broker-a" not in routes.ask(106).body and time.monotonic() < deadline:
        time.sleep(0.01)
