from __future__ import annotations

import pytest

from penstock.admin.rocketmq.messages.resend import _retry, hand_over, resend
from penstock.net.http.server.api import ApiError
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host, OffsetId
from penstock.rocketmq.protocol.messages import properties
from tests.unit.admin.rocketmq.scripted import A, Scripted, route

from .test_finding import found, message, stored

CODE = RequestCode.CONSUME_MESSAGE_DIRECTLY
ID = str(OffsetId(Host.parse(A), 1))


def test_a_letter_becomes_a_first_try_of_its_group() -> None:
    letter = stored(RETRY_TOPIC="orders", UNIQ_KEY="id", DELAY="3", WAIT="false", own="1")
    draft = _retry(letter, "g")
    kept = properties.parse(draft.properties)
    assert (draft.topic, draft.body, draft.reconsume_times) == ("%RETRY%g", b"tea", 0)
    assert (kept["RETRY_TOPIC"], kept["own"]) == ("orders", "1")
    assert not {"DELAY", "WAIT"} & set(kept)


async def test_ids_that_nobody_knows_are_told() -> None:
    answers = {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: route(),
        RequestCode.QUERY_MESSAGE: Command(0, 0),
    }
    told = await resend(Scripted(answers), "t", ["gone"])
    assert told == {"sent": [], "not_found": ["gone"], "message": ""}


def servers() -> Scripted:
    told = {"consumeResult": "CR_LATER", "spentTimeMills": 7, "remark": None, "order": False}
    return Scripted({RequestCode.VIEW_MESSAGE_BY_ID: found(message(1, 10)), (A, CODE): told})


async def test_the_member_is_named_to_the_broker_that_has_the_message() -> None:
    scripted = servers()
    done = await hand_over(scripted, "t", ID, "g", "c@1")
    assert done == {
        "result": "CR_LATER", "remark": None, "spent_ms": 7, "ordered": False, "message": "",
    }  # fmt: skip
    ((address, fields),) = [(at, fields) for at, code, fields in scripted.asked if code == CODE]
    assert (address, fields["consumerGroup"], fields["clientId"], fields["msgId"]) == (
        A, "g", "c@1", ID,
    )  # fmt: skip


async def test_a_message_that_is_gone_and_a_member_that_is_not_online() -> None:
    scripted = servers()
    with pytest.raises(ApiError, match="MESSAGE_NOT_FOUND"):
        await hand_over(scripted, "other", ID, "g", "c@1")
    scripted.answers[A, CODE] = Refused(1, "The Consumer <g> <c@1> not online")
    with pytest.raises(Refused, match="not online"):
        await hand_over(scripted, "t", ID, "g", "c@1")
