"""What a batch read plans."""

from __future__ import annotations

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.read.batch import BatchReader, SplitPartition
from penstock.spark.settings import Settings
from tools.harness.fake_log_server import FakeLogServer

COLUMNS = ("offset", "body")


def settings(server: FakeLogServer, **options: str) -> Settings:
    given = {"topic": "t", "nsqd_http_address": server.address, "timeout": "60", **options}
    return Settings.parse(given)


def test_a_batch_reader_covers_the_log(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 25_000)
    reader = BatchReader(settings(server, minPartitions="2"), COLUMNS)
    partitions = reader.partitions()
    assert len(partitions) == 2
    assert sum(batch.num_rows for each in partitions for batch in reader.read(each)) == 25_000


def test_a_batch_reader_cuts_small_splits(server: FakeLogServer) -> None:
    server.queue("t").append([b"x"] * 100)
    reader = BatchReader(settings(server, maxRecordsPerPartition="30"), COLUMNS)
    counts = [sum(batch.num_rows for batch in reader.read(each)) for each in reader.partitions()]
    assert counts == [25, 25, 25, 25]


def test_an_empty_log_is_one_empty_partition(server: FakeLogServer) -> None:
    server.queue("t")
    reader = BatchReader(settings(server), COLUMNS)
    (partition,) = reader.partitions()
    assert isinstance(partition, SplitPartition)
    assert list(reader.read(partition)) == []


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_a_mistyped_node_is_refused(server: FakeLogServer, option: str) -> None:
    server.queue("t").append([b"x"] * 10)
    given = settings(server, **{option: '{"t": {"typo:4151": {"0": 4}}}'})
    with pytest.raises(OptionError) as refused:
        BatchReader(given, COLUMNS).partitions()
    said = f"{option} names node typo:4151 for topic t, which is held by {server.node}"
    assert str(refused.value) == said
