"""The cases of `rocketmq/broker/transactions/test_ending.py` that need a port or a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.rocketmq.protocol.command import Serialization
from tests.programs.rocketmq.broker.pull.test_pulling import pull, send
from tests.unit.rocketmq.broker.transactions.halves import (
    COMMIT,
    ROLLBACK,
)  # fmt: skip
from tools.harness.rocketmq.raw_client import RawClient

HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


@pytest.mark.parametrize(("how", "expected"), [(COMMIT, [b"x"]), (ROLLBACK, [])])
def test_a_transaction_on_the_wire(
    connect: Callable[[], RawClient], how: int, expected: list[bytes]
) -> None:
    client = connect()
    answer = send(client, "Tx", b"x", queue=1, f=4, i=HALF_TEXT)
    assert answer.ext is not None
    assert answer.ext["queueId"] == "1"
    assert pull(client, "Tx", 1, 0)[1] == []
    fields: dict[str, Any] = {
        "producerGroup": "PG", "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": int(answer.ext["msgId"][16:], 16), "commitOrRollback": how,
        "fromTransactionCheck": "false", "msgId": "",
    }  # fmt: skip
    refused = client.ask(37, **{**fields, "producerGroup": "other"})
    assert (refused.code, refused.remark) == (1, "The producer group wrong")
    client.tell(37, **fields)  # as Java does
    assert client.ask(37, **fields).code == 0
    assert client.ask(37, **{**fields, "commitOrRollback": 20 - how}).code == 1
    assert [m.body for m in pull(client, "Tx", 1, 0)[1]] == expected


@pytest.mark.parametrize("unique", ["7F0000010001", 'of "mine"', "ä"])
@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_half_is_answered_with_its_transaction(
    connect: Callable[[], RawClient], unique: str, serialization: Serialization
) -> None:
    """5.x's proxy takes it for the sign that a transaction has begun."""
    client = connect()
    text = f"{HALF_TEXT}UNIQ_KEY\x01{unique}\x02"
    for body in (b"x", b"y"):
        answer = send(client, "Tx", body, queue=1, f=4, i=text, serialization_=serialization)
        assert (answer.code, answer.ext and answer.ext["transactionId"]) == (0, unique)
    assert answer.ext is not None
    assert answer.ext.keys() == {
        "msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON",
    }  # fmt: skip
    plain = send(client, "Tx", b"x", i=f"UNIQ_KEY\x01{unique}\x02")
    assert "transactionId" not in (plain.ext or {}), "as in 4.9: no other answer pays for it"


def test_a_broker_may_refuse_transactions(
    connect: Callable[[], RawClient], settings: object
) -> None:
    settings.reject_transaction_message = True  # type: ignore[attr-defined]
    answer = send(connect(), "Tx", b"x", f=4, i=HALF_TEXT)
    assert answer.code == 16
    assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
