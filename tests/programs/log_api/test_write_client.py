"""Publishing and staging over HTTP, as requests and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.log_api.errors import BatchCommitted, LogError, NoLog
from penstock.log_api.write_client import Committed, Part, WriteClient
from penstock.nsq.protocol import encode
from tests.unit.spark.sink.fake_node import FakeNode


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


@pytest.fixture
def client(node: FakeNode) -> Iterator[WriteClient]:
    with WriteClient(node.address, timeout=60) as client:
        yield client


def test_publishing(node: FakeNode, client: WriteClient) -> None:
    client.publish_many("t", encode.multi_body([b"a", b"b"]))
    client.publish_many("t", encode.multi_body([b"c"]), 5)
    client.publish("t", b"d", 6)
    client.publish("t", b"e")
    assert node.published == [
        ("t", 0, b"a"), ("t", 0, b"b"), ("t", 5, b"c"), ("t", 6, b"d"), ("t", 0, b"e"),
    ]  # fmt: skip
    assert client.delays_many()
    node.kind = "go"
    assert not client.delays_many()


def test_staging_and_its_commit(node: FakeNode, client: WriteClient) -> None:
    chunk = b"\0\0\0\1" + b"\0\0\0\1" + b"\0\0\0\7" + b"x"
    client.stage("t", "w", 3, part=0, attempt=9, chunk=0, body=chunk)
    found = client.commit_staged("w", 3, {"t": [Part(0, 9, 1)], "u": [Part(1, 9, 1)]})
    assert found["t"] == Committed(1, False)
    assert isinstance(found["u"], LogError)
    assert found["u"].reason == "PART_NOT_FOUND (part 1, attempt 9, chunk 0)"
    assert node.published == [("t", 7, b"x")]
    assert client.commit_staged("w", 3, {"t": [Part(0, 9, 1)]}) == {"t": Committed(0, True)}
    with pytest.raises(BatchCommitted):
        client.stage("t", "w", 3, part=0, attempt=9, chunk=0, body=chunk)
    client.stage("t", "w", 4, part=0, attempt=9, chunk=0, body=chunk)
    client.abort_staged("w", 4)
    assert node.staged == {}


def test_refusals(node: FakeNode, client: WriteClient) -> None:
    node.refuse = lambda *_: (413, {"message": "BODY_TOO_BIG"})
    with pytest.raises(LogError, match="413 BODY_TOO_BIG"):
        client.publish_many("t", b"")
    node.refuse = lambda *_: (404, {"message": "NOT_FOUND"})
    with pytest.raises(NoLog):
        client.stage("t", "w", 3, part=0, attempt=9, chunk=0, body=b"")
    node.refuse = lambda *_: (200, {})
    with pytest.raises(LogError, match="this is not the answer of a Penstock node"):
        client.commit_staged("w", 3, {"t": []})
