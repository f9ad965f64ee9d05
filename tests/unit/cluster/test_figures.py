"""What /stats says."""

from __future__ import annotations

import msgspec
import pytest

from penstock.cluster.figures import CHANNEL, ToldNode, figures_of
from penstock.cluster.groups import LOG, ROCKETMQ
from tests.unit.cluster.samples import SPARK, at, busy_cluster, channel, client, topic


def test_a_channel_and_its_client() -> None:
    busy = channel(
        "c", message_count=100, depth=7, in_flight_count=5, deferred_count=3, requeue_count=2,
        timeout_count=1, dead_letter_count=4, clients=[client()], paused=True,
    )  # fmt: skip
    (reader,) = at("n:1", 1, topic("t", busy)).topics[0].readers
    assert (reader.name, reader.kind) == ("c", CHANNEL)
    assert (reader.done, reader.lag) == (85, 15)
    assert (reader.requeued, reader.timed_out, reader.dead) == (2, 1, 4)
    assert (reader.clients, reader.paused) == (1, True)
    assert reader.members[0].software == "go-nsq/1.1.0"
    assert reader.members[0].finish_count == 900


def test_a_topic_is_as_far_behind_as_its_last_reader() -> None:
    found = at("n:1", 1, topic("t", channel("a", depth=3), channel("b", depth=9), depth=2))
    assert found.topics[0].lag == 11
    assert at("n:1", 1, topic("t", depth=2)).topics[0].lag == 2


def test_rocketmqs_groups() -> None:
    orders = busy_cluster().nodes["10.0.0.1:4151"].topics[0]
    group = orders.readers[-1]
    assert (group.name, group.kind, group.lag, group.done) == ("g", ROCKETMQ, 7, 42)
    assert (group.rate, group.clients, group.members[0].software) == (12.5, 1, "JAVA V5_3_2")


def test_groups_of_the_log() -> None:
    (group,) = at("n:1", 1, topic("t", log_groups=[SPARK])).topics[0].readers
    assert (group.name, group.kind, group.lag, group.done) == ("spark", LOG, 40, 60)


def test_no_topics() -> None:
    assert at("n:1", 1).topics == ()
    assert figures_of("n:1", 1, msgspec.json.decode(b'{"topics":null}', type=ToldNode)).topics == ()


@pytest.mark.parametrize("answer", ["null", "[]", '"OK"', "{}", '{"topics":[{}]}', '{"topics":3}'])
def test_anything_else_is_refused(answer: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(answer, type=ToldNode)
