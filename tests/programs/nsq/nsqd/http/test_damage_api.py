"""Damaged files of a data path: their recovery, /damage, and the alarm until an operator accepts
the damage.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs.nsq.nsqd.conftest import Running, Start, mpub_body

ACCEPT = "/topic/damage/accept?topic=orders"
COUNT = 300
RECORD = rb"PSJ1.{44}[\x90-\x9f]\xa1c\xa7"


def folder(path: Path, topic: str = "orders") -> Path:
    return path / "topics" / f"{topic}@0"


def journal(path: Path, topic: str = "orders") -> Path:
    return folder(path, topic) / "cursors.journal"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


async def filled(start: Start, *topics: str) -> Running:
    """An nsqd with messages, of which channel `audit` has finished all and `billing` none; a group
    of the log is in the middle.
    """
    nsqd = await start(max_bytes_per_file=2000)
    for topic in topics or ("orders",):
        for channel in ("audit", "billing"):
            await nsqd.post(f"/topic/create?topic={topic}")
            await nsqd.post(f"/channel/create?topic={topic}&channel={channel}")
        for first in range(0, COUNT, 50):
            body = mpub_body(*[b"%d" % number for number in range(first, first + 50)])
            assert await nsqd.post(f"/mpub?topic={topic}&binary=true", body) == (200, b"OK")
        assert await consume(nsqd, topic, "audit", COUNT) == COUNT
        await commit(nsqd, topic, 100)
    return nsqd


async def consume(nsqd: Running, topic: str, channel: str, count: int) -> int:
    """Finish this number of the channel's messages; returns the number of different ones."""
    client = await nsqd.connect()
    await client.subscribe(topic, channel, count)
    messages = await client.messages(count)
    client.send(b"".join(b"FIN %s\n" % message.id for message in messages))

    async def is_done() -> bool:
        figures = await nsqd.channel(topic, channel)
        return bool(figures["depth"] + figures["in_flight_count"] == 0)

    await nsqd.until(is_done)
    client.writer.close()
    return len({message.body for message in messages})


async def commit(nsqd: Running, topic: str, offset: int) -> None:
    body = b'{"offsets":{"0":%d}}' % offset
    assert (await nsqd.post(f"/log/commit?topic={topic}&group=lake", body))[0] == 200


async def depths(nsqd: Running, topic: str = "orders") -> dict[str, int]:
    return {each["channel_name"]: each["depth"] for each in (await nsqd.topic(topic))["channels"]}


async def pending(nsqd: Running) -> list[str]:
    """The damage that /damage shows for the topic."""
    found: dict[str, Any] = await nsqd.json("/damage?topic=orders")
    return [place for topic in found["topics"] for place in topic.get("damage", [])]


async def test_a_whole_topic_shows_no_damage(start: Start) -> None:
    nsqd = await filled(start)
    await nsqd.stop()
    nsqd = await start()
    assert await nsqd.get("/ping") == (200, b"OK")
    assert await nsqd.json("/damage") == {"topics": []}
    assert not {"lost_count", "damage"} & set(await nsqd.topic("orders"))
    assert await nsqd.post(ACCEPT) == (200, b"")
    assert (await nsqd.post("/topic/damage/accept?topic=no"))[0] == 404
    assert await depths(nsqd) == {"audit": 0, "billing": COUNT}


async def test_a_flipped_bit_in_any_record_of_the_journal_loses_nothing(
    start: Start, tmp_path: Path
) -> None:
    await (await filled(start, "orders")).stop()
    whole = tmp_path.with_name(tmp_path.name + "-whole")
    shutil.copytree(tmp_path, whole)
    places = [found.start() for found in re.finditer(b"PSJ1", journal(whole).read_bytes())]
    assert len(places) > 5
    for place in places[:-1]:
        shutil.rmtree(folder(tmp_path))
        shutil.copytree(folder(whole), folder(tmp_path))
        shutil.copy(whole / "nsqd.dat", tmp_path)
        flip(journal(tmp_path), place + 50)
        nsqd = await start()
        left = await depths(nsqd)
        assert left["billing"] == COUNT, place
        assert left["audit"] <= 50 or left["audit"] == COUNT  # its own record may be the bad one
        status, text = await nsqd.get("/ping")
        assert status == 500
        assert b"NOK - topic orders is damaged: cursors.journal at bytes " in text
        assert await nsqd.get("/ready") == (200, b"OK")
        await nsqd.stop()


async def test_a_channel_that_the_journal_lost_begins_at_the_start_of_the_log(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await (await filled(start)).stop()
    data = journal(tmp_path).read_bytes()
    for found in re.finditer(RECORD + b"billing", data, re.DOTALL):
        flip(journal(tmp_path), found.end())
    nsqd = await start()
    assert await depths(nsqd) == {"audit": 0, "billing": COUNT}
    assert "channel billing is not in the journal; it begins at the log's start" in caplog.text
    copies = list((folder(tmp_path) / "quarantine").iterdir())
    assert copies
    assert all(copy.read_bytes() in _flipped(data) for copy in copies)
    assert await consume(nsqd, "orders", "billing", COUNT) == COUNT
    assert nsqd.nsqd.node.broker.topics["orders"].groups == {"lake": 100}


def _flipped(data: bytes) -> bytes:
    for found in re.finditer(RECORD + b"billing", data, re.DOTALL):
        data = data[: found.end()] + bytes([data[found.end()] ^ 4]) + data[found.end() + 1 :]
    return data


async def test_nothing_is_deleted_until_an_operator_accepts_the_damage(
    start: Start, tmp_path: Path
) -> None:
    await (await filled(start)).stop()
    flip(journal(tmp_path), 60)
    nsqd = await start()
    await consume(nsqd, "orders", "billing", COUNT)
    await commit(nsqd, "orders", COUNT)
    topic = nsqd.nsqd.node.broker.topics["orders"]
    nsqd.nsqd.node.broker.trim()
    assert topic.log.start_offset == 0
    await nsqd.stop()
    nsqd = await start()  # which does not end it
    assert (await nsqd.get("/ping"))[0] == 500
    topic = nsqd.nsqd.node.broker.topics["orders"]
    nsqd.nsqd.node.broker.trim()
    assert topic.log.start_offset == 0
    assert (await nsqd.json("/stats?format=json"))["health"].startswith("NOK - topic orders is")
    assert len((await nsqd.topic("orders"))["damage"]) == 1
    assert await nsqd.post(ACCEPT) == (200, b"")
    assert await nsqd.get("/ping") == (200, b"OK")
    nsqd.nsqd.node.broker.trim()
    assert topic.log.start_offset > 0
    await nsqd.stop()
    nsqd = await start()
    assert await nsqd.get("/ping") == (200, b"OK")


@pytest.mark.parametrize("action", ["empty", "delete"])
async def test_emptying_or_deleting_the_topic_accepts_it(
    start: Start, tmp_path: Path, action: str
) -> None:
    await (await filled(start)).stop()
    flip(journal(tmp_path), 60)
    nsqd = await start()
    assert (await nsqd.get("/ping"))[0] == 500
    assert (await nsqd.post(f"/topic/{action}?topic=orders"))[0] == 200
    assert await nsqd.get("/ping") == (200, b"OK")


async def test_what_cannot_be_accepted_is_refused(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await filled(start)).stop()
    flip(journal(tmp_path), 60)
    nsqd = await start()
    folder(tmp_path).chmod(0o500)
    monkeypatch.setattr("os.rename", _refuse)
    assert (await nsqd.post(ACCEPT))[0] == 500
    monkeypatch.undo()
    folder(tmp_path).chmod(0o700)
    assert (await nsqd.get("/ping"))[0] == 500
    assert await nsqd.post(ACCEPT) == (200, b"")


def _refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def swap_journals(path: Path) -> None:
    one, other = journal(path), journal(path, "other")
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def empty_the_journal(path: Path) -> None:
    journal(path).write_bytes(b"")


def delete_the_journal(path: Path) -> None:
    journal(path).unlink()


def cut_the_journal(path: Path) -> None:
    """Cut the journal to a record from before the channels, so that only nsqd.dat has them."""
    journal(path).write_bytes(journal(path).read_bytes()[:48])


@pytest.mark.parametrize("spoil", [swap_journals, empty_the_journal, delete_the_journal])
async def test_a_journal_that_is_gone_or_of_another_is_noticed(
    start: Start, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    await (await filled(start, "orders", "other")).stop()
    spoil(tmp_path)
    nsqd = await start()
    assert (await nsqd.get("/ping"))[0] == 500
    assert len(await pending(nsqd)) == 1
    assert (await depths(nsqd))["billing"] == COUNT
    assert (await depths(nsqd))["audit"] == COUNT


async def test_a_journal_that_was_cut_loses_no_message(start: Start, tmp_path: Path) -> None:
    await (await filled(start)).stop()
    cut_the_journal(tmp_path)
    nsqd = await start()
    assert await depths(nsqd) == {"audit": COUNT, "billing": COUNT}


async def test_a_deleted_segment_is_told_at_the_start(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await (await filled(start)).stop()
    segments = sorted(folder(tmp_path).glob("*.log"))
    assert len(segments) > 3
    segments[2].unlink()
    segments[0].unlink()
    nsqd = await start(metrics=True)
    lost = (await nsqd.topic("orders"))["lost_count"]
    assert [re.sub(r"\d+", "N", each) for each in await pending(nsqd)] == 2 * [
        "log: cut short, or without one of its files; N messages are lost, offsets N to N"
    ]
    assert f"{lost // 2} messages are lost, offsets 0 to " in caplog.text
    metric = f'nsqd_topic_lost_total{{topic="orders"}} {lost}'
    assert metric.encode() in (await nsqd.get("/metrics"))[1]
    assert (await nsqd.get("/ping"))[0] == 500
    await nsqd.post(ACCEPT)
    await nsqd.stop()
    nsqd = await start()
    assert await nsqd.get("/ping") == (200, b"OK")
    assert (await nsqd.topic("orders"))["lost_count"] == lost


async def test_messages_that_were_trimmed_are_not_missed(start: Start) -> None:
    nsqd = await filled(start)
    await consume(nsqd, "orders", "billing", COUNT)
    await commit(nsqd, "orders", COUNT)
    topic = nsqd.nsqd.node.broker.topics["orders"]
    await nsqd.until(lambda: topic.log.start_offset > 0)
    await nsqd.stop()
    nsqd = await start()
    assert await nsqd.get("/ping") == (200, b"OK")


async def test_a_log_whose_only_segment_was_deleted_is_missed_after_a_clean_stop(
    start: Start, tmp_path: Path
) -> None:
    nsqd = await start()
    await nsqd.publish("orders", b"a", b"b")
    await nsqd.stop()
    (segment,) = folder(tmp_path).glob("*.log")
    segment.unlink()
    nsqd = await start()
    assert (await nsqd.topic("orders"))["lost_count"] == 2
    assert (await nsqd.get("/ping"))[0] == 500
