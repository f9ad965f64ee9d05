"""Sending without a network: requests, retries, time-outs, brokers that fail."""

from __future__ import annotations

import base64
import random
import resource
import zlib
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.chance import SystemChance
from penstock.core.units import SECOND
from penstock.rocketmq.client import errors
from penstock.rocketmq.client.config import Config
from penstock.rocketmq.client.message import Message
from penstock.rocketmq.client.produce.compression import compress, decompress
from penstock.rocketmq.client.produce.faults import Faults, QueueChoice
from penstock.rocketmq.client.produce.publishing import Publisher
from penstock.rocketmq.client.produce.sending import SendStatus, draft, drafts_of, results
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.message_queue import MessageQueue
from penstock.rocketmq.protocol.messages import batch_body, properties
from tests.unit.rocketmq.client.memory_hub import (
    FakeClock,
    MemoryHub,
    answering,
    refusing,
    silent,
)

SEND, RECALL = RequestCode.SEND_MESSAGE_V2, RequestCode.RECALL_MESSAGE
T = Message("T", b"x")


def made(**options: object) -> tuple[MemoryHub, Publisher]:
    hub = MemoryHub(**options)
    hub.has_topic("T", brokers="ab")
    return hub, Publisher("PG", hub)


def refused(code: ResponseCode, only: str = "") -> tuple[MemoryHub, Publisher]:
    """A producer whose brokers, or one of them, refuse."""
    hub, publisher = made()
    hub.answers[SEND] = lambda address, request: (
        request.answer(code, "no") if address.startswith(only) else hub.stored(address, request)
    )
    return hub, publisher


def brokers(hub: MemoryHub) -> list[str]:
    return [address[0] for address, request in hub.log if request.code == SEND]


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION])
def test_a_refusal_goes_on_to_another_broker(code: ResponseCode) -> None:
    hub, publisher = refused(code, only="a")
    for _ in range(4):
        assert hub.does(publisher.send(T)).queue.brokerName == "b"
    assert "aa" not in "".join(brokers(hub))


@pytest.mark.parametrize(
    ("code", "reasons", "remedy"),
    [
        (ResponseCode.SYSTEM_BUSY, [errors.SystemBusy] * 3, "SYSTEM_BUSY"),
        (ResponseCode.NO_PERMISSION, [errors.NoPermission] * 2, "updateTopicPerm"),
    ],
)
def test_nothing_is_tried_past_its_limit_and_no_broker_that_denies_again(
    code: ResponseCode, reasons: list[type], remedy: str
) -> None:
    hub, publisher = refused(code)
    with pytest.raises(errors.SendFailed, match=remedy) as failed:
        hub.does(publisher.send(T))
    assert [type(error) for error in failed.value.errors] == reasons
    assert len(brokers(hub)) == len(reasons)
    assert set(brokers(hub)) == {"a", "b"}


def test_a_refusal_that_all_brokers_would_give_is_raised_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, publisher = refused(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(errors.MessageIllegal):
        hub.does(publisher.send(T))
    assert len(brokers(hub)) == 1
    assert "resend at once" not in caplog.text
    assert "sendKernelImpl exception: " in caplog.text


def test_a_queue_that_was_chosen_is_the_only_one_tried() -> None:
    hub, publisher = refused(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(errors.SystemBusy):
        hub.does(publisher.send(T, lambda every: every[0]))
    with pytest.raises(errors.SystemBusy):
        hub.does(publisher.send(replace(T, sharding_key="k")))
    assert len(brokers(hub)) == 2


def test_a_silent_broker_takes_the_time_of_all_tries() -> None:
    hub, publisher = made()
    hub.answers[SEND] = silent
    with pytest.raises(errors.TimedOut, match=r"no answer within 3 s; .*send_msg_timeout"):
        hub.does(publisher.send(T))
    assert len(brokers(hub)) == 1


@pytest.mark.parametrize(("wished", "count"), [(False, 1), (True, 3)])
def test_what_was_stored_but_not_safely_is_told_and_sent_again_if_that_is_wished(
    wished: bool, count: int
) -> None:
    hub, publisher = made(retry_another_broker_when_not_store_ok=wished)
    hub.answers[SEND] = lambda address, request: request.answer(
        ResponseCode.FLUSH_DISK_TIMEOUT, ext=hub.stored(address, request).ext
    )
    found = hub.does(publisher.send(T))
    assert found.status is SendStatus.FLUSH_DISK_TIMEOUT
    assert len(brokers(hub)) == count


def test_a_broker_that_failed_rests() -> None:
    hub, publisher = made(send_latency_fault_enable=True)
    hub.down.add("a:10911")
    for _ in range(6):
        hub.does(publisher.send(T))
    hub.down.clear()
    for _ in range(6):
        hub.does(publisher.send(T))
    assert brokers(hub) == ["b"] * 12


@pytest.mark.parametrize("limit", [{"max_pending": 2}, {"max_pending_bytes": 2}])
def test_sends_under_way_are_counted_and_their_bytes(limit: dict[str, int]) -> None:
    hub, publisher = made(**limit)
    first, second = publisher.send_soon(T), publisher.send_soon(T)
    assert publisher.is_full
    waits = publisher.settled()
    assert not waits.is_done
    hub.does(first)
    hub.does(second)
    assert waits.is_done
    assert not publisher.is_full
    assert publisher.pending == 0
    assert publisher.settled().is_done


def test_one_way_sends_follow_their_brokers_and_are_no_silent_loss_in_the_end() -> None:
    hub, publisher = made()
    hub.does(publisher.send_one_way(T, lambda every: every[0]))
    hub.known["T"]["brokerDatas"][0]["brokerAddrs"] = {"0": "promoted:10911"}
    hub.passes(31)
    hub.does(publisher.send_one_way(T, lambda every: every[0]))
    hub.work()
    sent = [(address, each.is_one_way) for address, each in hub.log if each.code == SEND]
    assert sent == [("a:10911", True), ("promoted:10911", True)]
    hub.close()
    with pytest.raises(errors.Stopped):
        hub.does(publisher.send_one_way(T))


def test_a_route_that_failed_is_asked_for_again() -> None:
    hub, publisher = made()
    hub.down |= {"a:10911", "b:10911"}
    with pytest.raises(errors.SendFailed):
        hub.does(publisher.send(T))
    before = len(hub.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    hub.passes(2)
    assert len(hub.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == before + 1


def test_queues_and_leaving() -> None:
    hub, publisher = made()
    assert len(hub.does(publisher.queues("T"))) == 4
    hub.does(publisher.heartbeats.beat())
    hub.does(publisher.leave())
    assert len(hub.requests(RequestCode.UNREGISTER_CLIENT)) == 2
    hub.close()
    with pytest.raises(errors.Stopped):
        hub.does(publisher.send(T))


def test_a_thousand_failures_are_a_hundred_lines(caplog: pytest.LogCaptureFixture) -> None:
    hub, publisher = made()
    hub.down |= {"a:10911", "b:10911"}
    sending = [publisher.send_soon(T) for _ in range(500)]
    with pytest.raises(errors.SendFailed):
        hub.does(sending[-1])
    told = [each for each in caplog.records if "sendKernelImpl" in each.getMessage()]
    assert len(told) == 100


def test_a_recall_goes_to_the_broker_that_gave_the_handle() -> None:
    hub, publisher = made(namespace="ns")
    hub.has_topic("ns%T", brokers="ab")
    hub.answers[RECALL] = answering(msgId="id")
    handle = base64.urlsafe_b64encode(b"v1 ns%T b 5 id").decode()
    assert hub.does(publisher.recall("T", handle)) == "id"
    ((address, request),) = [each for each in hub.log if each[1].code == RECALL]
    assert (address, request.text("topic")) == ("b:10911", "ns%T")
    assert request.text("recallHandle") == handle
    hub.answers[RECALL] = refusing(ResponseCode.NO_PERMISSION, "forbidden")
    with pytest.raises(errors.NoPermission, match="forbidden"):
        hub.does(publisher.recall("T", handle))
    elsewhere = base64.urlsafe_b64encode(b"v1 ns%T c 5 id").decode()
    for wrong in ("", "?", elsewhere):
        with pytest.raises(errors.NotConnected if wrong == elsewhere else errors.BadMessage):
            hub.does(publisher.recall("T", wrong))


def test_a_send_gives_the_handle_for_a_recall() -> None:
    hub, publisher = made()
    hub.answers[SEND] = lambda address, request: request.answer(
        ext={**(hub.stored(address, request).ext or {}), "recallHandle": "h"}
    )
    assert hub.does(publisher.send(T)).recall_handle == "h"


# --- brokers that rest, and whose turn it is ------------------------------------------------------

QUEUES = [MessageQueue(broker, number, "T") for broker in "ab" for number in range(2)]


@pytest.mark.parametrize(("took", "rests"), [(0.1, 0), (0.6, 30), (1.5, 60), (4, 180), (20, 600)])
def test_a_slow_broker_rests(took: float, rests: int) -> None:
    clock = FakeClock()
    faults = Faults(clock)
    faults.report("a", took)
    assert faults.rests("a") == bool(rests)
    clock.now += rests * SECOND
    assert not faults.rests("a")


def test_one_that_failed_rests_for_ten_minutes_unless_it_does_well() -> None:
    faults = Faults(FakeClock())
    faults.report("a", 0.0, failed=True)
    assert faults.rests("a")
    faults.report("a", 0.01)
    assert not faults.rests("a")


def test_queues_take_turns_but_those_of_a_broker_that_has_just_failed() -> None:
    choice = QueueChoice(None, SystemChance(1))
    assert {choice.choose(QUEUES) for _ in range(4)} == set(QUEUES)
    assert {choice.choose(QUEUES, "a").brokerName for _ in range(8)} == {"b"}
    assert choice.choose(QUEUES[:2], "a").brokerName == "a"


def test_those_that_rest_are_avoided_and_the_first_back_is_taken() -> None:
    clock = FakeClock()
    faults = Faults(clock)
    choice = QueueChoice(faults, SystemChance(1))
    faults.report("a", 1.0)
    assert {choice.choose(QUEUES).brokerName for _ in range(8)} == {"b"}
    faults.report("b", 20.0)
    assert {choice.choose(QUEUES).brokerName for _ in range(8)} == {"a"}


# --- requests and their answers -------------------------------------------------------------------

QUEUE = MessageQueue("a", 2, "T")
FIELDS = {"msgId": "7F00000100002A9F0000000000000005", "queueId": "2", "queueOffset": "9"}


def test_a_message_becomes_a_request() -> None:
    made = draft(Message("T", b"x", flag=5), "ID", Config(namespace="ns"))
    request = made.request("PG", QUEUE, 1234, Config())
    assert request.code == SEND
    assert request.ext is not None
    picked = {name: request.ext[name] for name in "abdefghkm"}
    assert picked == {"a": "PG", "b": "ns%T", "d": "4", "e": "2", "f": "0", "g": "1234", "h": "5",
                      "k": "false", "m": "false"}  # fmt: skip
    found = properties.parse(request.ext["i"])
    assert found == {"UNIQ_KEY": "ID", "WAIT": "true", "INSTANCE_ID": "ns"}


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_a_body_that_packing_makes_longer_is_sent_as_it_is(kind: str) -> None:
    """One as long as a broker allows would be refused else."""
    config, noise = Config(compress_type=kind), random.Random(7).randbytes(5000)
    made = draft(Message("T", noise), "ID", config)
    assert (made.body, made.sys_flag) == (noise, 0)
    packed = draft(Message("T", bytes(5000)), "ID", config)
    assert len(packed.body) < 5000
    assert packed.sys_flag & 1


def test_a_half_message_says_so() -> None:
    made = draft(Message("T", b"x"), "ID", Config(), TRAN_MSG="true", PGROUP="PG")
    assert made.sys_flag == 0x4


def test_batches_are_as_large_as_they_may_be() -> None:
    messages = [(Message("T", b"x" * 100), f"ID{n}") for n in range(10)]
    parts = drafts_of(messages, Config(max_message_size=500))
    assert [unique for part in parts for unique in part.ids] == [f"ID{n}" for n in range(10)]
    for part in parts:
        assert len(part.body) <= 500
        assert len(batch_body.decode(part.body)) == len(part.ids)
    assert len(parts) == 4
    (one,) = drafts_of([(Message("T", b"x" * 1000), "ID")], Config(max_message_size=500))
    assert one.code == RequestCode.SEND_BATCH_MESSAGE


@pytest.mark.parametrize(
    "messages",
    [[], [Message("T", b"x"), Message("U", b"x")], [Message("T", b"x", delay_level=1)],
     [Message("%RETRY%G", b"x")], [Message("T", b"x"), Message("T", b"x", wait_store=False)]],
)  # fmt: skip
def test_what_cannot_be_one_batch(messages: list[Message]) -> None:
    with pytest.raises(errors.BadMessage):
        drafts_of([(each, "ID") for each in messages], Config())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"keys": "\udcff.txt"}, "not a character"),  # as Python reads a name that is not UTF-8
        ({"tags": "\ud800"}, "not a character"),
        ({"properties": {"file": "\udcff.txt"}}, "not a character"),
        ({"tags": "a\x02TRAN_MSG\x01true"}, "separates properties"),
        ({"keys": "k\x02"}, "separates properties"),
        ({"keys": ("a", "b\x01c")}, "separates properties"),
        ({"sharding_key": "s\x02DELAY\x013"}, "separates properties"),
        ({"properties": {"x": "y" * 33000}}, "32767"),
    ],
)
def test_what_could_not_be_read_back_is_refused(more: dict[str, Any], words: str) -> None:
    message = Message("T", b"x", **more)
    with pytest.raises(errors.BadMessage, match=words):
        draft(message, "ID", Config())
    with pytest.raises(errors.BadMessage, match=words):
        drafts_of([(message, "ID")], Config())


def test_what_an_answer_says() -> None:
    made = draft(Message("T", b"x"), "ID", Config())
    (found,) = results(Command(0, ext=FIELDS | {"MSG_REGION": "r"}), made, QUEUE, "b:1")
    assert (found.status, found.id, found.queue, found.queue_offset, found.region) == (
        SendStatus.SEND_OK, "ID", QUEUE, 9, "r",
    )  # fmt: skip
    assert found.physical_offset == 5
    (late,) = results(Command(ResponseCode.FLUSH_DISK_TIMEOUT, ext=FIELDS), made, QUEUE, "b:1")
    assert late.status is SendStatus.FLUSH_DISK_TIMEOUT


def test_an_answer_that_is_none() -> None:
    made = draft(Message("T", b"x"), "ID", Config())
    with pytest.raises(errors.MessageIllegal, match=r"b:1 \(topic T\)"):
        results(Command(ResponseCode.MESSAGE_ILLEGAL, remark="too long"), made, QUEUE, "b:1")
    with pytest.raises(errors.BadAnswer, match="queueId"):
        results(Command(0, ext={}), made, QUEUE, "b:1")
    (found,) = results(Command(0, ext=FIELDS | {"msgId": "?"}), made, QUEUE, "b:1")
    with pytest.raises(errors.BadAnswer):
        _ = found.physical_offset


# --- bodies that are compressed -------------------------------------------------------------------

BODY = b"tea and coffee " * 1000


@pytest.mark.parametrize(("kind", "bits"), [("ZLIB", 0x301), ("LZ4", 0x101), ("ZSTD", 0x201)])
def test_a_body_survives_and_what_is_damaged_or_a_bomb_stays_as_it_is(kind: str, bits: int) -> None:
    packed, flag = compress(BODY, kind, 5)
    assert len(packed) < len(BODY) // 10
    assert flag == bits
    assert decompress(packed, flag) == BODY
    assert decompress(packed, flag, 1000) == packed
    assert decompress(b"no such thing", flag) == b"no such thing"


def test_old_clients_do_not_say_how() -> None:
    assert decompress(zlib.compress(BODY), 0x1) == BODY
    assert decompress(b"no such thing", 0x1) == b"no such thing"
    assert decompress(BODY, 0x0) == BODY


def test_a_bomb_takes_no_memory_first() -> None:
    frame, flag = compress(bytes(8 << 20), "ZSTD", 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert decompress(frame * 64, flag) == frame * 64
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB
