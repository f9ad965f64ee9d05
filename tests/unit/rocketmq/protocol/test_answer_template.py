"""A template says what an answer that is encoded as a whole says, in both serialisations."""

from __future__ import annotations

import pytest

from penstock.rocketmq.protocol import frames
from penstock.rocketmq.protocol.answer_template import AnswerTemplate
from penstock.rocketmq.protocol.command import Command, Serialization


@pytest.mark.parametrize("serialization", Serialization)
@pytest.mark.parametrize("remark", [None, 'a "quoted" 100 % remark, größer'])
def test_the_same_bytes(serialization: Serialization, remark: str | None) -> None:
    constants = {"MSG_REGION": 'a "region" of 5 %s', "TRACE_ON": "true"}
    template = AnswerTemplate(("msgId", "queueId"), constants, 7, remark)
    request = Command(310, 1_234_567, {"a": "b"}, serialization=serialization)
    for values in (("7F00", "3"), ("0A", "12,13,14"), ("1F," * 30_000, "3")):
        ext = {**constants, **dict(zip(("msgId", "queueId"), values, strict=True))}
        whole = request.answer(7, remark, ext=ext)
        assert template.encode(request, values) == frames.encode_head(whole, 0)
        assert template.encode(request, values, 99) == frames.encode_head(whole, 99)


@pytest.mark.parametrize("serialization", Serialization)
def test_negative_opaque_and_no_constants(serialization: Serialization) -> None:
    request = Command(11, -5, serialization=serialization)
    encoded = AnswerTemplate(("minOffset",)).encode(request, ("0",))
    assert encoded == frames.encode(request.answer(ext={"minOffset": "0"}))
