"""The cases of `rocketmq/broker/transactions/test_checks.py` that need a port or a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.rocketmq.broker.settings import BrokerSettings
from tests.programs.rocketmq.broker.pull.test_pulling import pull, send
from tests.unit.rocketmq.broker.transactions.halves import (
    COMMIT,
    ROLLBACK,
)
from tools.harness.rocketmq.raw_client import RawClient

if TYPE_CHECKING:
    pass
from tests.unit.rocketmq.broker.transactions.test_checks import CHECK

HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01U1\x02"


@pytest.fixture
def quick(settings: BrokerSettings) -> BrokerSettings:
    """Before the broker starts: it asks soon."""
    settings.transaction_time_out = 50
    settings.transaction_check_interval = 100
    settings.transaction_check_max = 10_000
    return settings


@pytest.mark.parametrize(("how", "expected"), [(COMMIT, [b"x"]), (ROLLBACK, [])])
def test_a_check_on_the_wire(
    quick: BrokerSettings,
    connect: Callable[[], RawClient],
    how: int,
    expected: list[bytes],
) -> None:
    client = connect()
    body = json.dumps({"clientID": "c", "producerDataSet": [{"groupName": "PG"}]}).encode()
    assert client.ask(34, body).code == 0
    answer = send(client, "Tx", b"x", queue=1, f=4, i=HALF_TEXT, g=0)
    assert answer.code == 0
    asked = client.next_command()
    assert (asked.code, asked.is_one_way) == (CHECK, True)
    assert asked.ext is not None
    assert asked.ext["transactionId"] == "U1"
    fields: dict[str, Any] = {
        "producerGroup": "PG", "tranStateTableOffset": asked.ext["tranStateTableOffset"],
        "commitLogOffset": asked.ext["commitLogOffset"], "commitOrRollback": how,
        "fromTransactionCheck": "true", "msgId": "U1", "transactionId": "U1",
    }  # fmt: skip
    client.tell(37, **fields)
    assert client.ask(37, **fields).code == 0
    assert [m.body for m in pull(client, "Tx", 1, 0)[1]] == expected
