"""The consumers of the tools."""

from __future__ import annotations

import pytest

from penstock.nsq.client import Config, NotConnected
from penstock.nsq.tools import lines
from penstock.nsq.tools.consumers import new_consumer
from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.flags import ConsumerFlags
from tools.harness.ports import unused_address


def test_it_is_the_next_one_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    formatter = lines.ClientFormatter()
    monkeypatch.setattr(lines, "_formatter", formatter)
    flags = ConsumerFlags(nsqd_tcp_addresses=("127.0.0.1:4150",))
    for topic in ("b", "a"):
        assert new_consumer(flags, topic, "c", Config()).topic == topic
    assert (formatter.number("b/c"), formatter.number("a/c")) == (1, 2)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nsqd_tcp_addresses": ("h",)}, "dial tcp: address h: missing port in address"),
        ({"lookupd_http_addresses": ("h",)}, "missing port"),
    ],
)
def test_what_is_no_address(given: dict[str, tuple[str]], text: str) -> None:
    with pytest.raises(ToolError) as caught:
        new_consumer(ConsumerFlags(**given), "t", "c", Config())
    assert str(caught.value) == text


async def test_a_node_that_was_named_must_be_there() -> None:
    flags = ConsumerFlags(nsqd_tcp_addresses=(unused_address(),))
    async with new_consumer(flags, "t", "c", Config()) as consumer:
        with pytest.raises(NotConnected, match="connection refused"):
            await anext(consumer.deliveries())
