"""What brokers tell name servers, plain and compressed."""

from __future__ import annotations

import zlib

import pytest

from penstock.rocketmq.protocol import registration
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.registration import Registration, TopicConfig

SAMPLE = Registration(
    {"counter": 3, "timestamp": 1700000000000},
    {
        "T": TopicConfig("T", 4, 4),
        "%RETRY%g": TopicConfig("%RETRY%g", 1, 1, 6, attributes={"a": "b c"}),
    },
)


def test_plain() -> None:
    assert registration.decode(registration.encode(SAMPLE)) == SAMPLE
    assert b'"topicConfigTable":{"%RETRY%g":{' in registration.encode(SAMPLE)


@pytest.mark.parametrize("version", [409, 413])
def test_compressed(version: int) -> None:
    body = registration.encode_compressed(SAMPLE, version)
    read = registration.decode_compressed(body)
    assert read.data_version == SAMPLE.data_version
    assert list(read.topics) == list(SAMPLE.topics)
    attributes = {"a": "b c"} if version >= 413 else {}  # brokers before 5.0 have none
    assert read.topics["%RETRY%g"].attributes == attributes


def test_a_line_as_java_writes_it() -> None:
    config = TopicConfig.from_line("T 4 4 6 SINGLE_TAG {}")
    assert config == TopicConfig("T", 4, 4)
    assert config.as_line(with_attributes=True) == "T 4 4 6 SINGLE_TAG {}"
    assert config.as_line() == "T 4 4 6 SINGLE_TAG"  # name servers before 5.0 take this only
    assert TopicConfig.from_line("T 4 8 2 MULTI_TAG").write_queues == 8


def test_old_brokers_send_the_wrapper_only_and_misspell() -> None:
    read = registration.decode(
        b'{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"T":{"topicSynFlag":1}}}'
    )
    assert read.topics["T"].sys_flag == 1
    assert read.topics["T"].name == "T"
    assert registration.decode(b"").topics == {}


@pytest.mark.parametrize(
    "body", [b"{", b'{"topicConfigTable":[1]}', b'{"topicConfigTable":{"T":1}}',
             b'{"topicConfigTable":{"T":{"perm":"x"}}}', b'{"filterServerList":5}',
             b'{"topicConfigTable":{"T":{"attributes":[1]}}}']
)  # fmt: skip
def test_bad_bodies(body: bytes) -> None:
    with pytest.raises(BodyError):
        registration.decode(body)


def test_bad_compressed_bodies() -> None:
    good = zlib.decompress(registration.encode_compressed(SAMPLE, 409))
    for end in range(len(good) - 1):
        with pytest.raises(BodyError):
            registration.decode_compressed(zlib.compress(good[:end]))
    with pytest.raises(BodyError, match="inflated"):
        registration.decode_compressed(b"no zlib")
    with pytest.raises(BodyError, match="more than"):
        registration.decode_compressed(zlib.compress(bytes(registration.INFLATED_MAX + 1)))
    with pytest.raises(BodyError, match="makes no sense"):
        TopicConfig.from_line("T x 4 6 SINGLE_TAG")
