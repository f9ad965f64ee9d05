from __future__ import annotations

import msgspec
import pytest

from penstock.cluster.producers import (
    LOWEST,
    Info,
    ProducerTopic,
    ToldNodes,
    distinct,
    parse_version,
    united,
)


def test_the_order_of_versions() -> None:
    rising = ["0.0.1", "1.2.0-1", "1.2.0-2", "1.2.0-11", "1.2.0-alpha", "1.2.0-alpha.1",
              "1.2.0-beta", "1.2.0", "1.2.1", "1.10.0", "2.0.0"]  # fmt: skip
    parsed = [parse_version(each) for each in rising]
    assert parsed == sorted(parsed)
    assert len(set(parsed)) == len(parsed)


def test_a_build_does_not_count() -> None:
    assert parse_version("1.3.0+x.7") == parse_version("1.3.0")


@pytest.mark.parametrize(
    "text", ["", "weird", "1.3", "v1.3.0", "01.3.0", "1.3.0\n", "1.3.0-", "9" * 300 + ".0.0"]
)
def test_what_is_none_is_the_lowest(text: str) -> None:
    assert parse_version(text) == LOWEST == parse_version("0.0.0")


def told(*nodes: dict[str, object]) -> ToldNodes:
    return msgspec.convert({"producers": nodes}, ToldNodes)


def node(host: str, **more: object) -> dict[str, object]:
    return {"hostname": host, "broadcast_address": host, "tcp_port": 1, "http_port": 2, **more}


def test_nodes_that_several_nsqlookupds_know() -> None:
    first = told(node("b", remote_address="x:1"), node("a", version="1.2.0"))
    second = told(node("b", remote_address="y:1", version="1.3.0"))
    a, b = united([("l1:4161", first), ("l2:4161", second)])
    assert a.remote_addresses == ["l1:4161/N/A"]
    assert b.remote_addresses == ["l1:4161/x:1", "l2:4161/y:1"]
    assert (a.http_address, a.tcp_address) == ("a:2", "a:1")


def test_older_ones_are_marked() -> None:
    versions = {"a": "1.2.0-alpha", "b": "1.3.0", "c": "weird"}
    found = united([("l", told(*(node(host, version=text) for host, text in versions.items())))])
    assert [each.out_of_date for each in found] == [True, False, True]


def test_topics_are_sorted_and_may_be_tombstoned() -> None:
    (found,) = united([("l", told(node("a", topics=["z", "b", "x"], tombstones=[True])))])
    expected = [ProducerTopic("b"), ProducerTopic("x"), ProducerTopic("z", True)]
    assert found.topics == expected


def test_none_twice() -> None:
    found = distinct([("l1", told(node("b"), node("a"))), ("l2", told(node("a"), node("c")))])
    assert [each.hostname for each in found] == ["b", "a", "c"]


def test_the_order_of_keys() -> None:
    info = Info("h", "::1", 1, 2, "1.3.0", "z", "r")
    assert msgspec.json.encode(info.described([])) == (
        b'{"remote_addresses":null,"remote_address":"","hostname":"h","broadcast_address":"::1",'
        b'"tcp_port":1,"http_port":2,"version":"1.3.0","topology_zone":"z","topology_region":"r",'
        b'"topics":null,"out_of_date":false}'
    )
    assert info.described([]).http_address == "[::1]:2"
