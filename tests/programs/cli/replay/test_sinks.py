"""Where messages go."""

from __future__ import annotations

import pytest

from penstock.cli.replay.sinks import Nowhere, Printing, Publishing, SinkError
from penstock.core.errors import PenstockError
from penstock.nsq.stored import Stored
from penstock.testing.daemons import run_nsqd
from tests.unit.cli.nodes_at_work import consume, make


def stored(*bodies: bytes) -> list[Stored]:
    return [Stored(offset, "", 0, body) for offset, body in enumerate(bodies)]


def test_publishing_leaves_out_what_nsq_cannot_have() -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t", "c")
        sink = Publishing("t", nsqd.tcp)
        assert sink.put(stored(b"a", b"", b"b")) == 2
        assert sink.put(stored(b"")) == 0
        sink.close()
        assert consume(nsqd, "t", "c", 2) == [b"a", b"b"]


def test_a_refusal_says_which_messages_and_where_to_go_on() -> None:
    with run_nsqd("--max-msg-size=10") as nsqd:
        sink = Publishing("t", nsqd.tcp)
        with pytest.raises(SinkError, match="did not take offsets 1 to 2: E_BAD") as refused:
            sink.put(stored(b"", b"a" * 5, b"b" * 11))
        sink.close()
    assert refused.value.offset == 1


def test_nobody_takes_anything() -> None:
    with pytest.raises(PenstockError, match=r"^nothing can be published: 127\.0\.0\.1:1"):
        Publishing("t", "127.0.0.1:1")


def test_nowhere_and_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert Nowhere().put(stored(b"a", b"b")) == 2
    sink = Printing("hex")
    assert sink.put(stored(b"a", b"b")) == 2
    sink.close()
    assert capsysbinary.readouterr().out == b"61\n62\n"
