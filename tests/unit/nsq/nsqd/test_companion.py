"""What nsqd tells a broker of another dialect beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.topic import Topic
from penstock.core.errors import PenstockError
from penstock.nsq.nsqd.companion import Companion
from penstock.nsq.nsqd.daemon import Nsqd
from penstock.nsq.nsqd.options import NsqdOptions


class Recorder(Companion):
    """Writes down what it hears."""

    def __init__(self, error: PenstockError | None = None) -> None:
        self.heard: list[str] = []
        self._error = error

    async def start(self, nsqd: Nsqd) -> None:
        self.heard.append(f"start {sorted(nsqd.broker.topics)}")
        if self._error is not None:
            raise self._error

    def topic_created(self, topic: Topic) -> None:
        self.heard.append(f"created {topic.name}")

    def topic_deleted(self, name: str) -> None:
        self.heard.append(f"deleted {name}")

    async def close(self) -> None:
        self.heard.append("close")


def options(path: Path) -> NsqdOptions:
    return NsqdOptions(data_path=str(path), tcp_address="", http_address="", https_address="")


async def test_a_companion_hears_of_topics(tmp_path: Path) -> None:
    companion = Recorder()
    nsqd = await Nsqd.start(options(tmp_path), companions=(companion,))
    assert (nsqd.tcp_port, nsqd.http_port) == (0, 0)
    topic = nsqd.topic("t")
    nsqd.topic("kept")
    nsqd.topic("t")
    await nsqd.delete_topic(topic)
    await nsqd.close()
    assert companion.heard == ["start []", "created t", "created kept", "deleted t", "close"]
    again = Recorder()
    await (await Nsqd.start(options(tmp_path), companions=(again,))).close()
    assert again.heard == ["start ['kept']", "close"]


async def test_a_companion_that_cannot_start_ends_nsqd(tmp_path: Path) -> None:
    companion = Recorder(PenstockError("not today"))
    with pytest.raises(PenstockError, match="not today"):
        await Nsqd.start(options(tmp_path), companions=(companion,))
    assert companion.heard == ["start []", "close"]
    await (await Nsqd.start(options(tmp_path))).close()  # nothing was left locked


async def test_names_of_other_dialects_stay_out_of_nsqs_file(tmp_path: Path) -> None:
    nsqd = await Nsqd.start(options(tmp_path), companions=(Recorder(),))
    nsqd.topic("%RETRY%g")
    nsqd.topic("t")
    await nsqd.close()
    text = (tmp_path / "nsqd.dat").read_text()
    assert '"t"' in text
    assert "RETRY" not in text
