"""The blocking lite pull consumer with real servers."""

from __future__ import annotations

import pytest

from penstock.core.units import SECOND
from penstock.rocketmq.client import Message, Stopped, sql
from penstock.rocketmq.client.blocking import LitePullConsumer, Producer
from penstock.rocketmq.client.errors import NoRoute
from tests.unit.rocketmq.leaping import Leaping
from tools.harness.rocketmq.servers import QUICK, Servers, wait_for_route


def test_polling_seeking_and_committing(servers: Servers) -> None:
    servers.make_topic("BPolled", 1)
    with Producer("PG", servers.address, config=QUICK) as producer:
        for number in range(10):
            producer.send(Message("BPolled", b"%d" % number))
    with LitePullConsumer("BLG", servers.address, config=QUICK, auto_commit=False) as consumer:
        (queue,) = consumer.topic_queues("BPolled")
        consumer.assign([queue])
        assert [each.body for each in consumer.poll(timeout=60, max_messages=2)] == [b"0", b"1"]
        consumer.commit()
        assert consumer.committed(queue) == 2
        consumer.seek(queue, 8)
        assert [each.body for each in consumer.poll(timeout=60)] == [b"8", b"9"]
        consumer.seek_to_end(queue)
        assert consumer.poll(timeout=0.2) == []
        consumer.seek_to_begin(queue)
        assert consumer.poll(timeout=60)[0].body == b"0"
        assert consumer.offset_at(queue, 1.0) == consumer.min_offset(queue) == 0
        assert len(consumer.pull(queue, 5).messages) == 5
    with pytest.raises(Stopped):
        consumer.poll()


def test_messages_are_iterated_until_it_is_closed(servers: Servers) -> None:
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_batch([Message("BIterated", b"%d" % n) for n in range(5)])
    found = []
    with LitePullConsumer("BIG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("BIterated")
        for message in consumer:
            found.append(message.body)
            if len(found) == 5:
                break
    assert found == [b"%d" % n for n in range(5)]


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


def test_what_a_program_has_not_handled_is_not_done(servers: Servers) -> None:
    servers.make_topic("BGiven", 1)
    with Producer("PG", servers.address, config=QUICK) as producer:
        producer.send_batch([Message("BGiven", b"%d" % n) for n in range(6)])
    with LitePullConsumer("BGiG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("BGiven")
        (queue,) = consumer.topic_queues("BGiven")
        for message in consumer:
            if message.queue_offset == 1:
                break

    def work() -> None:
        with LitePullConsumer("BGiG", servers.address, config=QUICK) as consumer:
            assert consumer.committed(queue) == 2
            consumer.subscribe("BGiven")
            assert len(consumer.poll(timeout=60, max_messages=3)) == 3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with LitePullConsumer("BGiG", servers.address, config=QUICK) as consumer:
        assert consumer.committed(queue) == 2


def test_a_start_that_has_failed_is_tried_again(servers: Servers) -> None:
    with LitePullConsumer("BEarlyG", servers.address, config=QUICK) as consumer:
        consumer.subscribe("BEarly", sql("number >= 0"))
        for _ in range(2):
            with pytest.raises(NoRoute):
                consumer.poll()
        servers.make_topic("BEarly", 1)
        wait_for_route(servers.address, "BEarly")
        with Producer("PG", servers.address, config=QUICK) as producer:
            producer.send(Message("BEarly", b"x", properties={"number": "1"}))
        assert [each.body for each in consumer.poll(timeout=60)] == [b"x"]
