"""A broker of RocketMQ's that needs a lease takes messages while it holds one."""

from __future__ import annotations

import json
from contextlib import closing

from penstock.core.units import SECOND
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.testing.daemons import MqBroker, run_rocketmq
from tests.frozen_disk import asked
from tests.programs.rocketmq.broker.asking import pull, send
from tools.harness.ports import unused_address
from tools.harness.rocketmq.raw_client import RawClient

REFUSAL = "this node holds no lease: penstock lease has not renewed it"


def lease(broker: MqBroker) -> dict[str, int]:
    """What the port for slaves, which ``penstock lease`` asks, says of the lease."""
    status, answer, _ = asked(port_of(broker.copies), "GET", "/replication")
    assert status == 200
    found: dict[str, int] = json.loads(answer)["lease"]
    return found


def grant(broker: MqBroker, seconds: int) -> int:
    """Give it the lease for so long, by its own clock, as ``penstock lease`` does."""
    until_ns = lease(broker)["clock_ns"] + seconds * SECOND
    body = json.dumps({"epoch": 1, "until_ns": until_ns, "members": []}).encode()
    return asked(port_of(broker.copies), "POST", "/replication/lease", body)[0]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_messages_are_taken_while_it_holds_a_lease() -> None:
    monitoring = unused_address()

    def ready() -> tuple[int, bytes]:
        return asked(port_of(monitoring), "GET", "/ready")[:2]

    with run_rocketmq(needsLease="true", monitoringAddress=monitoring) as (_, broker):
        with closing(RawClient(broker.port)) as client:

            def sent() -> Command:
                return send(client, "T", b"x", waitStoreMsgOK="true")

            # With this code producers try another broker.
            refused = sent()
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert REFUSAL in str(refused.remark)
            assert ready() == (503, f"NOK - {REFUSAL}".encode())
            assert asked(port_of(monitoring), "GET", "/ping")[0] == 200, "nothing is wrong with it"
            assert grant(broker, 3600) == 200
            assert (sent().code, ready()) == (ResponseCode.SUCCESS, (200, b"OK"))
            assert grant(broker, 0) == 200, "as if its time were over"
            assert sent().code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert lease(broker)["seconds_left"] == 0
            _, messages = pull(client, "T", 0, 0)
            assert [each.body for each in messages] == [b"x"], "reading needs no lease"
        broker.kill()
        broker.start()
        with closing(RawClient(broker.port)) as client:
            assert send(client, "T").code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert grant(broker, 3600) == 200
            assert send(client, "T").code == ResponseCode.SUCCESS
