from __future__ import annotations

from penstock.admin.rocketmq.messages.resend import _retry, resend
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.messages import properties
from tests.unit.admin.rocketmq.scripted import Scripted, route

from .test_shown import stored


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
