"""Sending; that it reads as upstream's is shown on real servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.mqadmin import rounds
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.commands.messages import finding as messages
from penstock.rocketmq.mqadmin.commands.messages import sending, traces
from penstock.rocketmq.mqadmin.options import Given
from penstock.rocketmq.mqadmin.output import Output
from tests.programs.rocketmq.mqadmin.patient import PatientAdmin
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, in_json, interrupted, printed
from tools.harness.rocketmq.servers import SECONDS, run_servers, wait_for_route


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with run_servers(traceTopicEnable="true") as servers:
        found = PatientAdmin(servers.address)
        yield found
        found.close()


def test_a_message_with_a_trace_that_is_found(admin: Admin) -> None:
    sent = in_json(
        sending.send_message, admin, topic="Sent", body="tea", key="k", tags="A",
        msgTraceEnable="true",
    )["sent"][0]  # fmt: skip
    assert (sent["broker"], sent["status"]) == ("broker-a", "SEND_OK")
    found = None
    ends = time.monotonic() + SECONDS
    while found is None:  # traces are indexed a moment later
        assert time.monotonic() < ends, "no trace is found"
        with suppress(Refused):
            found = in_json(traces.query_trace, admin, msgId=sent["id"])["traces"]
    assert [each["type"] for each in found] == ["Pub"]


def test_a_message_is_sent_again(admin: Admin) -> None:
    in_json(sending.send_message, admin, topic="Again", body="tea", key="again", tags="A")
    wait_for_route(admin.name_servers[0], "Again")
    first = admin.do(messages.with_key(admin, "Again", "again", 9))[0]
    text = printed(messages.query_msg_by_id, admin, msgId=first.offset_id, sendMessage="true")
    told = f"prepare resend msg. originalMsgId={first.offset_id}SendResult [sendStatus=SEND_OK, "
    assert text.startswith(told)
    found = admin.do(messages.with_key(admin, "Again", "again", 9))
    assert [each.body for each in found] == [b"tea", b"tea"]


def test_a_queue_needs_a_broker() -> None:
    text = printed(sending.send_message, FakeAdmin(), topic="T", body="x", qid="1")
    assert text == "Broker name must be set if the queue is chosen!"


def test_times_of_sends(admin: Admin) -> None:
    found = in_json(sending.check_rt, admin, topic="Timed", amount="3", size="10")
    assert [each["isSent"] for each in found["times"]] == [True] * 3
    found = in_json(sending.send_msg_status, admin, brokerName="broker-a", count="2")
    assert [each["status"] for each in found["results"]] == ["SEND_OK"] * 2


def test_times_of_all_brokers(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "pause", interrupted)
    for is_log in ("false", "true"):
        texts: list[str] = []
        out = Output(texts.append)
        given = Given({"amount": "2", "print log": is_log})
        with pytest.raises(KeyboardInterrupt):
            admin.do(sending.cluster_rt(admin, given, out))
        assert "DefaultCluster" in "".join(texts)
        assert ("|noname|" in "".join(texts)) == (is_log == "true")
