"""Transactions on the wire, beyond what conformance shows: the answer to a half, and refusals."""

from __future__ import annotations

import pytest

from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.protocol.command import Serialization
from tools.harness.rocketmq.raw_client import RawClient

from ..asking import send

HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


@pytest.mark.parametrize("unique", ["7F0000010001", 'of "mine"', "ä"])
@pytest.mark.parametrize("serialization", list(Serialization))
def test_a_half_is_answered_with_its_transaction(
    client: RawClient, unique: str, serialization: Serialization
) -> None:
    """5.x's proxy takes it for the sign that a transaction has begun."""
    text = f"{HALF_TEXT}UNIQ_KEY\x01{unique}\x02"
    for body in (b"x", b"y"):
        answer = send(client, "Tx", body, queue=1, f=4, i=text, serialization_=serialization)
        assert (answer.code, answer.text("transactionId")) == (0, unique)
        assert (answer.ext or {}).keys() == {
            "msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON",
        }  # fmt: skip
    for fields in ({"f": 4, "i": HALF_TEXT}, {"i": f"UNIQ_KEY\x01{unique}\x02"}):
        plain = send(client, "Tx", **fields)
        assert "transactionId" not in (plain.ext or {}), "as in 4.9: no other answer pays for it"


def test_a_broker_may_refuse_transactions(client: RawClient, settings: BrokerSettings) -> None:
    settings.reject_transaction_message = True
    answer = send(client, "Tx", f=4, i=HALF_TEXT)
    assert answer.code == 16
    assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
