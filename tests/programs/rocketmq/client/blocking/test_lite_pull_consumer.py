"""The blocking lite pull consumer with real servers."""

from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message
from penstock.rocketmq.client.blocking import LitePullConsumer, Producer
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, Servers


def test_a_loop_that_ends_with_an_exception(servers: Servers) -> None:
    """All but the last of what it was given is done, and nothing else; others work meanwhile."""
    servers.make_topic("BRaised", 1)
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_batch([Message("BRaised", b"%d" % n) for n in range(6)])

    def work() -> None:
        clock = Leaping()
        with LitePullConsumer("BRaG", servers.address, config=QUICK, clock=clock) as consumer:
            consumer.subscribe("BRaised")
            (queue,) = consumer.topic_queues("BRaised")
            for message in consumer:
                assert (consumer.committed(queue) or 0) <= message.queue_offset
                clock.ahead_ns += SECOND  # as a handler that takes long
                if message.queue_offset == 3:
                    assert consumer.committed(queue), "of the first ones, in the loop"
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with LitePullConsumer("BRaG", servers.address, config=QUICK) as consumer:
        (queue,) = consumer.topic_queues("BRaised")
        assert consumer.committed(queue) == 3
