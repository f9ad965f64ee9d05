from __future__ import annotations

import pytest

from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon
from tests.unit.admin.conftest import StartAdmin, StartFake, Two, until


async def test_under_a_base_path(two: Two, admin: StartAdmin) -> None:
    running = await admin(lookupd_http_addresses=(two.lookupd.address,), base_path="/nsq")
    assert await running.ask("GET", "/nsq/api/deadletters") == (200, '{"topics":[],"message":""}')
    assert (await running.ask("GET", "/api/deadletters"))[0] == 404


@pytest.mark.parametrize("action", ["cancel", "release"])
async def test_what_is_done_to_deferred_messages_is_told(
    two: Two, fake: StartFake, admin: StartAdmin, action: str
) -> None:
    sink = await fake()
    two.nsqds[0].answers[f"/channel/deferred/{action}"] = {"not_found": []}
    running = await admin(
        lookupd_http_addresses=(two.lookupd.address,),
        notification_http_endpoint=f"http://{sink.address}/n",
    )
    node = two.nsqds[0].address
    body = {"action": action, "topic": "t", "channel": "c", "node": node, "all": True}
    assert (await running.ask("POST", "/api/deferred", body))[0] == 200
    await until(lambda: bool(sink.bodies))
    told = f'{{"action":"{action}_deferred","topic":"t","channel":"c","node":"{node}",'
    assert sink.bodies[0].decode().startswith(told)


async def test_a_resend_is_told(dead: Daemon, fake: StartFake, admin: StartAdmin) -> None:
    sink = await fake()
    running = await admin(
        nsqd_http_addresses=(dead.http,), notification_http_endpoint=f"http://{sink.address}/n"
    )
    body = {"action": "resend", "all": True, "node": dead.http}
    assert (await running.ask("POST", "/api/deadletters/orders.dead", body))[0] == 200
    await until(lambda: bool(sink.bodies))
    told = (f'{{"action":"resend_dead_letters","topic":"orders.dead","channel":"{CHANNEL}",'
            f'"node":"{dead.http}",')  # fmt: skip
    assert sink.bodies[0].decode().startswith(told)
