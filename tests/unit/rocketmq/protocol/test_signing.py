from __future__ import annotations

from penstock.rocketmq.protocol.codes import RequestCode as Code
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.signing import sign, signature


def test_the_signature_is_that_of_java() -> None:
    # Values by name, without the signature: "RocketMQ" "v1" "v2", and "body".
    request = Command(
        Code.SEND_MESSAGE,
        ext={"b": "v2", "a": "v1", "AccessKey": "RocketMQ", "Signature": "x"},
        body=b"body",
    )  # fmt: skip
    assert signature(request, "12345678") == b"pOZ3zVtKzjqa6sznd8MdOOaEypQ="


def test_a_signed_request_names_its_account() -> None:
    request = Command(Code.SEND_MESSAGE, ext={"b": "v2", "a": "v1"}, body=b"body")
    sign(request, "RocketMQ", "12345678")
    assert request.ext == {
        "b": "v2", "a": "v1",
        "AccessKey": "RocketMQ", "Signature": "pOZ3zVtKzjqa6sznd8MdOOaEypQ=",
    }  # fmt: skip
