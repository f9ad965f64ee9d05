"""Data paths of earlier versions are read by the nsqd of today, and later ones are left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.cli.doctor.data_path import examine_data_path
from penstock.storage.batch import iter_batches
from penstock.storage.identity import FORMAT
from penstock.testing.daemons import DaemonError, run_nsqd
from tests.unit.cli.doctor.patients import everything
from tests.unit.cli.nodes_at_work import ask, fetched

SAVED = Path(__file__).parent.parent / "fixtures" / "data-paths"
FORMATS = [str(each) for each in range(1, FORMAT + 1)]
LATER_NS = 1 << 62


def copy(version: str, target: Path) -> Path:
    shutil.copytree(SAVED / version, target, dirs_exist_ok=True)
    target.chmod(0o755)
    for each in target.rglob("*"):
        each.chmod(0o700 if each.is_dir() else 0o600)  # Git keeps neither
    return target


def codes(path: Path) -> list[str]:
    return [each.code for each in examine_data_path(str(path), LATER_NS).findings]


@pytest.mark.parametrize("version", FORMATS)
def test_messages_and_progress_are_all_there(tmp_path: Path, version: str) -> None:
    data = copy(version, tmp_path)
    assert codes(data) == ["old-format"] * (version == "1")
    with run_nsqd(data_path=data) as nsqd:
        found = [bytes(batch.slice(each, each + 1))[34:]
                 for batch in iter_batches(fetched(nsqd, "orders"))
                 for each in range(batch.first_offset, batch.next_offset)]  # fmt: skip
        assert found == [b"order %03d " % each + b"x" * 60 for each in range(40)] + [b"deferred"]
        (topic,) = ask(nsqd, "GET", "/stats?format=json")["topics"]
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
