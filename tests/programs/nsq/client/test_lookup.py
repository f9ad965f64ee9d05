"""Asking nsqlookupd."""

from __future__ import annotations

import json

import pytest

from penstock.nsq.client.errors import LookupFailed
from penstock.nsq.client.lookup import (
    Node,
    lookup,
    lookup_url,
    parse_answer,
    topics_of_nodes,
)
from tests.unit.nsq.client.fakes import fake_http, lookup_answer
from tools.harness.ports import unused_address

PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("h:4161", "http://h:4161/lookup?topic=t%23ephemeral"),
        ("http://h:4161/", "http://h:4161/lookup?topic=t%23ephemeral"),
        ("https://h:1/foo?a=b", "https://h:1/foo?a=b&topic=t%23ephemeral"),
    ],
)
def test_url(address: str, url: str) -> None:
    assert lookup_url(address, "t#ephemeral") == url


def test_nodes_of_all_lookupds_together() -> None:
    with fake_http() as one, fake_http() as two, fake_http() as unknowing:
        one.json("/lookup", lookup_answer("10.0.0.1:4150", "10.0.0.2:4150"))
        two.json("/lookup", lookup_answer("10.0.0.2:4150", "::1:4150"))
        unknowing.json("/lookup", {"message": "TOPIC_NOT_FOUND"}, 404)
        addresses = [one.address, two.address, unknowing.address, unused_address()]
        found = lookup(addresses, "t", PATIENCE_S)
        assert [node.tcp_address for node in found] == [
            "10.0.0.1:4150",
            "10.0.0.2:4150",
            "[::1]:4150",
        ]
        assert found[0].http_address == "10.0.0.1:1"
        assert one.requests == [("GET", "/lookup?topic=t", b"")]


def test_nobody_answers() -> None:
    gone = unused_address()
    with fake_http() as broken:
        broken.json("/lookup", {"message": "INTERNAL_ERROR"}, 500)
        with pytest.raises(LookupFailed) as caught:
            lookup([gone, broken.address], "orders", PATIENCE_S)
    for part in (gone, broken.address, "'orders'", "500 INTERNAL_ERROR"):
        assert part in str(caught.value)


def test_nobody_to_ask() -> None:
    assert lookup([], "t") == []


def test_answers() -> None:
    node = Node("h", 4150, 4151, "n", "1.2.1")
    producer = {"broadcast_address": "h", "tcp_port": 4150, "http_port": 4151, "hostname": "n"}
    producer["version"] = "1.2.1"
    plain = {"producers": [producer]}
    assert parse_answer(200, json.dumps(plain).encode()) == [node]
    assert parse_answer(200, json.dumps({"status_code": 200, "data": plain}).encode()) == [node]
    bare = {"producers": [{"broadcast_address": "h", "tcp_port": 4150}]}
    assert parse_answer(200, json.dumps(bare).encode())[0].tcp_address == "h:4150"
    assert parse_answer(200, b"") == []
    assert parse_answer(200, b'{"producers":null}') == []
    for status, body in (
        (200, b"<html>"),
        (200, b'{"producers":[{}]}'),
        (200, b"[]"),
        (503, b"{}"),
    ):
        with pytest.raises(LookupFailed):
            parse_answer(status, body)


PRODUCER = {"broadcast_address": "h", "tcp_port": 1, "http_port": 2}


@pytest.mark.parametrize("wrapped", [False, True])
def test_topics_of_nodes(wrapped: bool) -> None:
    with fake_http() as server:
        producers = [PRODUCER | {"topics": ["a", "b"], "tombstones": [False, True]}]
        answer = {"producers": [*producers, PRODUCER | {"topics": ["c"]}]}
        server.json("/nodes", {"data": answer} if wrapped else answer)
        addresses = [server.address, unused_address()]
        found = topics_of_nodes(addresses, PATIENCE_S, headers={"X-Name": "v"})
        assert found == {Node("h", 1, 2): {"a", "c"}}
        assert server.headers[0]["X-Name"] == "v"


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("{}", "/nodes"),
        ("http://{}/", "/nodes"),
        ("http://{}/lookup?token=1", "/nodes?token=1"),
        ("http://{}/a/lookup", "/a/nodes"),
    ],
)
def test_where_the_nodes_are_asked_for(address: str, path: str) -> None:
    with fake_http() as server:
        server.json(path.partition("?")[0], {"producers": []})
        assert topics_of_nodes([address.format(server.address)], PATIENCE_S) == {}
        assert server.requests == [("GET", path, b"")]


@pytest.mark.parametrize(
    "answer",
    [[], {"producers": 5}, {"producers": [PRODUCER | {"topics": ["a"], "tombstones": [1, 2]}]}],
)
def test_no_answer_of_nsqlookupd(answer: object) -> None:
    with fake_http() as server:
        server.json("/nodes", answer)
        with pytest.raises(LookupFailed, match="lookup of the nodes failed: "):
            topics_of_nodes([server.address], PATIENCE_S)
