"""Data paths of earlier versions are read by the nsqd of today, and later ones are left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock import __version__
from penstock.cli.doctor.data_path import examine_data_path
from penstock.rocketmq.client import Config
from penstock.rocketmq.client.blocking import LitePullConsumer
from penstock.storage.batch import iter_batches
from penstock.storage.identity import FORMAT
from penstock.testing.daemons import DaemonError, run_mqnamesrv, run_nsqd
from tests.unit.cli.doctor.patients import everything
from tests.unit.cli.nodes_at_work import ask, fetched
from tools.release.built import ROOT
from tools.release.changelog import parts
from tools.release.kept import ORDERS, PROPERTIES, READ, TRADES, folder

KEPT = folder(ROOT, "")
FORMATS = [str(each) for each in range(1, FORMAT + 1)]
RELEASES = sorted(path.name for path in KEPT.iterdir() if "." in path.name and path.is_dir())
LATER_NS = 1 << 62


def copy(version: str, target: Path) -> Path:
    shutil.copytree(KEPT / version, target, dirs_exist_ok=True)
    target.chmod(0o755)
    for each in target.rglob("*"):
        each.chmod(0o700 if each.is_dir() else 0o600)  # Git keeps neither
    return target


def received(namesrv_addr: str, group: str, count: int) -> list[tuple[bytes, str, list[str]]]:
    """What a group has not read yet, in the order of the keys."""
    settings = Config(consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    found: list[tuple[bytes, str, list[str]]] = []
    with LitePullConsumer(group, namesrv_addr, config=settings) as consumer:
        consumer.subscribe("trades")
        while len(found) < count:
            polled = consumer.poll(timeout=5)
            found += [(each.body, each.tags, each.keys) for each in polled]
    return sorted(found, key=lambda each: int(each[2][0]))


def codes(path: Path) -> list[str]:
    return [each.code for each in examine_data_path(str(path), LATER_NS).findings]


@pytest.mark.parametrize("version", [*FORMATS, *RELEASES])
def test_messages_and_progress_are_all_there(tmp_path: Path, version: str) -> None:
    data = copy(version, tmp_path)
    assert codes(data) == ["old-format"] * (version == "1")
    with run_nsqd(data_path=data) as nsqd:
        found = [bytes(batch.slice(each, each + 1))[34:]
                 for batch in iter_batches(fetched(nsqd, "orders"))
                 for each in range(batch.first_offset, batch.next_offset)]  # fmt: skip
        assert found == [*ORDERS, b"deferred"]
        (topic,) = ask(nsqd, "GET", "/stats?format=json&topic=orders")["topics"]
        channels = {each["channel_name"]: each for each in topic["channels"]}
        waiting = {name: each["depth"] + each["deferred_count"] for name, each in channels.items()}
        assert waiting == {"bill": 16, "ship": 41}
        assert [name for name, each in channels.items() if each["paused"]] == ["ship"]
        groups = ask(nsqd, "GET", "/log/offsets?topic=orders")["groups"]
        assert groups == {"spark": {"0": 12}}
        assert ask(nsqd, "GET", "/ping") == "OK"
    assert codes(data) == []
    with run_nsqd(data_path=data):  # notes that the journal is of this format now
        pass
    identity = json.loads((data / "topics" / "orders@0" / "queue.json").read_text())
    assert identity["version"] == FORMAT


def test_each_release_has_left_one() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = {part.title.partition(" ")[0] for part in parts(changelog) if part.release}
    assert released <= set(RELEASES) == {__version__} | released


@pytest.mark.parametrize("version", RELEASES)
def test_topics_and_groups_of_rocketmq_are_all_there(tmp_path: Path, version: str) -> None:
    data, properties = copy(version, tmp_path / "data"), tmp_path / "broker.conf"
    properties.write_text(f"{PROPERTIES}\n")
    with run_mqnamesrv() as names:
        flags = (f"--rocketmq-namesrv-address={names.rocketmq}", f"--rocketmq-config={properties}")
        with run_nsqd("--rocketmq-address=127.0.0.1:0", *flags, data_path=data) as nsqd:
            nsqd.wait_for(f"name server {names.rocketmq}: registered")
            trades = [(body, "AB"[each % 2], [str(each)]) for each, body in enumerate(TRADES)]
            assert received(names.rocketmq, "audit", len(TRADES) - READ) == trades[READ:]
            assert received(names.rocketmq, "new", len(TRADES)) == trades


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("topics/orders@0/queue.json", f'{{"id_base":1,"version":{FORMAT + 1}}}'),
        ("topics/orders@0/damage.json", '{"version":2}'),
        ("ids.json", '{"least":0,"version":2}'),
    ],
)
def test_a_later_format_is_refused_and_nothing_changes(
    tmp_path: Path, name: str, content: str
) -> None:
    data = copy(FORMATS[-1], tmp_path)
    (data / name).write_text(content)
    before = everything(data)
    said = rf"{name} has format \d, of a later Penstock; this one reads up to \d: start the later"
    with pytest.raises(DaemonError, match=said), run_nsqd(data_path=data):
        pass
    assert codes(data) == ["later-format"]
    assert everything(data) == before
