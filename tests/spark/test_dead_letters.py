"""Dead letters of a real nsqd in a real Spark: where they came from, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.nsq.client.blocking import Consumer
from penstock.testing.daemons import run_nsqd
from tests.spark.test_real_nodes import publish
from tests.spark.test_triggers import depth_of, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAGS = ("--broadcast-address=127.0.0.1", "--retention-time=1h", "--max-attempts=2")


def test_dead_letters_say_where_they_came_from(spark: SparkSession) -> None:
    with run_nsqd(*FLAGS) as nsqd:
        publish(nsqd, 5, "orders")
        with Consumer("orders", "bill", nsqd_tcp_addresses=[nsqd.tcp]) as consumer:
            ids = set()
            for _ in range(10):
                message = consumer.get(timeout=300)
                assert message is not None
                ids.add(message.id.decode())
                message.requeue(0, backoff=False)
            wait_for(lambda: depth_of(nsqd, "orders.dead") == 5)
        publish(nsqd, 1, "orders.dead")
        source = spark.read.format("nsq").option("nsqd_http_address", nsqd.http)
        rows = source.option("includeOrigin", "true").load("orders.dead").collect()
        plain = source.option("includeOrigin", "false").load("orders.dead")
    dead = [row for row in rows if row.reason == "max_attempts"]
    assert len(rows) == 6
    assert {row.origin_id for row in dead} == ids
    assert {(r.origin_topic, r.origin_channel, r.origin_attempts) for r in dead} == {
        ("orders", "bill", 2)
    }
    assert all(row.origin_timestamp <= row.timestamp for row in dead)
    assert "reason" not in plain.columns
