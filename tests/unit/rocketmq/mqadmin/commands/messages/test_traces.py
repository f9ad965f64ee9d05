from __future__ import annotations

from penstock.rocketmq.client.admin.trace_entries import TRACES
from penstock.rocketmq.client.produce.trace import entry
from penstock.rocketmq.mqadmin.commands.messages import traces
from penstock.rocketmq.protocol.codes import RequestCode as Code
from tests.unit.rocketmq.mqadmin.commands.messages_of import stored
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, answer, in_json, printed

SENT = entry("Pub", 5, "R", "shop", "T", "U1", "", "", "h", 4, 12, 0, "OFFSET", True, "h")
CONSUMED = entry("SubAfter", "r", "U1", 7, False, "k", 0, 6, "billing")
ENDED = entry(
    "EndTransaction", 8, "R", "shop", "T", "U1", "", "", "h", 2, "U1", "COMMIT_MESSAGE", False
)
OTHER = entry("SubBefore", 5, "R", "billing", "r", "U1", 0, "k") + entry("SubAfter", "r", "U2")


def _admin(told: str = SENT + OTHER + CONSUMED) -> FakeAdmin:
    record = stored("KEYS\x01U1\x02", told.encode(), TRACES)
    return FakeAdmin({Code.QUERY_MESSAGE: answer(record)})


def test_who_sent_it_and_who_consumed_it() -> None:
    found = in_json(traces.query_trace, _admin(), msgId="U1")["traces"]
    assert found == [
        {"type": "Pub", "group": "shop", "clientHost": "127.0.0.1", "time": 5, "cost": 12,
         "status": "success"},
        {"type": "Sub", "group": "billing", "clientHost": "127.0.0.1", "time": 6, "cost": 7,
         "status": "failed"},
    ]  # fmt: skip


def test_a_table_for_each_group() -> None:
    lines = printed(traces.query_trace, _admin(), msgId="U1").splitlines()
    assert [line.split()[0] for line in lines if line] == ["#Type", "Pub", "#Type", "Sub"]


def test_how_its_transaction_ended() -> None:
    lines = printed(traces.query_trace, _admin(SENT + ENDED), msgId="U1").splitlines()
    assert [line.split()[0] for line in lines if line] == ["#Type", "Pub", "#Type", "End"]
    assert lines[-2].endswith(" COMMIT_MESSAGE")
    found = in_json(traces.query_trace, _admin(ENDED), msgId="U1")["traces"]
    assert found == [
        {"type": "End", "group": "shop", "clientHost": "127.0.0.1", "time": 8, "cost": 0,
         "status": "COMMIT_MESSAGE"},
    ]  # fmt: skip
