from __future__ import annotations

import asyncio

import pytest

from penstock.nsq.tools.errors import ToolError
from penstock.nsq.tools.nsq_to_nsq.options import parse_options
from penstock.nsq.tools.nsq_to_nsq.program import forward
from penstock.nsq.tools.run import Stop
from penstock.testing.daemons import run_nsqd
from tests.forwarding import bodies_in, create, publish

DEAD = "127.0.0.1:1"


async def test_from_one_nsqd_to_another(capsys: pytest.CaptureFixture[str]) -> None:
    with run_nsqd() as source, run_nsqd() as destination:
        create(source, "t", "nsq_to_nsq")
        create(destination, "u", "c")
        publish(source, "t", [b'{"a":1,"b":2}', b"x", b'{"b":3}'])
        flags = parse_options(
            [
                "--topic=t",
                "--destination-topic=u",
                f"--nsqd-tcp-address={source.tcp}",
                f"--destination-nsqd-tcp-address={destination.tcp}",
                "--whitelist-json-field=b",
                "--mode=unheard-of",
            ]
        )
        stop = Stop()
        async with asyncio.TaskGroup() as group:
            group.create_task(forward(flags, stop))
            found = await asyncio.to_thread(bodies_in, destination, "u", "c", 2)
            stop.request()
        assert found == [b'{"b":2}', b'{"b":3}']
    said = capsys.readouterr().err
    assert "--mode=unheard-of is not one of round-robin, hostpool, epsilon-greedy" in said
    assert "ERROR: Unable to decode json: x" in said


async def test_a_lookupd_without_a_port() -> None:
    flags = parse_options(
        ["--topic=t", "--lookupd-http-address=h", f"--destination-nsqd-tcp-address={DEAD}"]
    )
    with pytest.raises(ToolError, match="missing port"):
        await forward(flags, Stop())


async def test_a_destination_without_a_port() -> None:
    flags = parse_options(
        ["--topic=t", "--nsqd-tcp-address=h:1", "--destination-nsqd-tcp-address=elsewhere"]
    )
    with pytest.raises(ToolError, match="dial tcp: address elsewhere: missing port in address"):
        await forward(flags, Stop())
