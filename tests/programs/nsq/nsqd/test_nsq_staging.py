"""NSQ's staged messages: topics, chunks and stamps."""

from __future__ import annotations

import pytest

from penstock.broker.publish.commit import Spot
from penstock.node.dialect import StagingError
from penstock.nsq.nsqd.nsq_staging import NsqStaging
from penstock.nsq.stored import Stretch
from penstock.storage.batch import Batch
from tests.programs.nsq.nsqd.conftest import Running
from tests.programs.nsq.nsqd.staging import staged_body


@pytest.fixture
def staging(nsqd: Running) -> NsqStaging:
    return NsqStaging(nsqd.nsqd.node.registry, nsqd.nsqd.options.limits())


async def test_a_topic_is_made_unless_nothing_could_be_remembered_in_it(
    staging: NsqStaging,
) -> None:
    assert await staging.topic("t") is await staging.topic("t")
    for name, code in (("a b", "INVALID_TOPIC"), ("t#ephemeral", "TOPIC_IS_EPHEMERAL")):
        with pytest.raises(StagingError) as refused:
            await staging.topic(name)
        assert refused.value.code == code


async def test_neighbours_of_one_delay_are_a_batch_that_gets_its_place(
    staging: NsqStaging,
) -> None:
    topic = await staging.topic("t")
    first, second = staging.read(topic, staged_body(b"a", b"bb", (b"c", 7)))
    assert (first.count, second.count, second.delay_ns) == (2, 1, 7_000_000)
    writable = Batch.parse(memoryview(bytearray(first.raw)))
    assert staging.stamp(topic)(writable, Spot(1 << 50, 0, 0, 5)) == 3
    assert Stretch(writable, 0, 2).bodies() == [b"a", b"bb"]
    assert b"%016x" % ((1 << 50) + 1) in bytes(writable.frames)


async def test_a_wrong_chunk_is_refused_with_its_code(staging: NsqStaging) -> None:
    with pytest.raises(StagingError) as refused:
        staging.read(await staging.topic("t"), b"\0\0\0\1")
    assert refused.value.code == "BAD_BODY"
    assert refused.value.text
