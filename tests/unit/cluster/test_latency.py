from __future__ import annotations

import msgspec

from penstock.cluster.latency import Latency, merged


def told(count: int, **values: float) -> Latency:
    """As a node tells it: p99=… is the quantile 0.99."""
    percentiles = [{"quantile": int(name[1:]) / 100, "value": value} for name, value in
                   values.items()]  # fmt: skip
    latency = msgspec.convert({"count": count, "percentiles": percentiles}, Latency, strict=False)
    latency.settle()
    return latency


def test_a_nodes_percentile_has_all_its_numbers_in_gos_order() -> None:
    body = msgspec.json.encode(told(4, p100=7.0, p99=6.5))
    assert body == (
        b'{"count":4,"percentiles":['
        b'{"average":7,"count":4,"max":7,"min":7,"quantile":1,"value":7},'
        b'{"average":6.5,"count":4,"max":6.5,"min":6.5,"quantile":0.99,"value":6.5}],'
        b'"topic":"","channel":"","host":""}'
    )


def test_several_nodes() -> None:
    total = merged([told(4, p99=100), None, told(1, p99=50), told(0)], "t", "c")
    assert total.percentiles is not None
    (percentile,) = total.percentiles
    assert (total.count, total.topic, total.channel, total.host) == (5, "t", "c", "*")
    assert (percentile.min, percentile.max, percentile.average) == (50, 100, 90)
    assert b"value" not in msgspec.json.encode(total)


def test_the_parts_stay_as_they_are() -> None:
    parts = [told(4, p99=100), told(1, p99=50)]
    merged(list(parts), "t")
    assert parts == [told(4, p99=100), told(1, p99=50)]


def test_nothing_measured() -> None:
    assert merged([], "t") == Latency(topic="t", host="*") == merged([Latency()], "t")
