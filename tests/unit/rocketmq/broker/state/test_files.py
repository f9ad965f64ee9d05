"""The broker's tables in files: their checksums, backups and damages, and when they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, DiskFullError, StorageError
from penstock.rocketmq.broker.state import files as state_module
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.broker.state.seal import is_broken, sealed
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import OsDisk
from tests.unit.rocketmq.broker.filling import until


class Table:
    """Something kept in a file."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def dump(self) -> Any:
        return {"values": dict(self.values)}

    def load(self, value: Any) -> None:
        if not isinstance(value, dict) or "values" not in value:
            raise BodyError("a table without values")
        self.values = value["values"]


class CountingDisk(OsDisk):
    """Counts what is written, and fails on demand."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.error: StorageError | None = None

    def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(Path(path).name)
        super().replace_file(path, *data, sync=sync)


class Folder:
    """A table in a file, over and over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = CountingDisk()
        self.file, self.backup, self.damaged = (
            path / f"t.json{ending}" for ending in ("", ".bak", ".damaged")
        )

    def open(self, name: str = "t.json", every_s: float = 5.0) -> tuple[StateFiles, Table]:
        table = Table()
        state = StateFiles(self.disk, str(self.path), lambda: every_s)
        state.add(name, table.dump, table.load)
        return state, table

    @property
    def values(self) -> dict[str, int]:
        """What is loaded."""
        return self.open()[1].values

    def fill(self, *numbers: int) -> tuple[StateFiles, Table]:
        """Save one content after the other."""
        state, table = self.open()
        for number in numbers:
            table.values["abc"] = number
            state.save("t.json")
        return state, table


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store" / "config")


def content(file: Path) -> Any:
    """The table in a file, without its checksum."""
    value = json.loads(file.read_bytes())
    assert re.fullmatch("[0-9a-f]{16}", value.pop("checksum"))
    return value


def change(file: Path) -> None:
    """Turn one letter into another, so that it is JSON as before."""
    file.write_bytes(file.read_bytes().replace(b'"abc"', b'"abb"'))


def test_what_was_saved_is_loaded_and_written_again_only_when_it_changed(folder: Folder) -> None:
    state, _ = folder.fill(1, 1)
    assert folder.values == {"abc": 1}
    again, _ = folder.open()
    for each in (state, again):
        each.save("t.json")
    assert folder.disk.written == ["t.json"]
    folder.fill(2, 3)
    assert content(folder.backup) == {"values": {"abc": 2}}


DAMAGES = (b"", b"\n", bytes(32), b"{", b"[]", b'{"other":1}', b"\xff\xfe", b'{"values":{"a":')


@pytest.mark.parametrize("damage", [*DAMAGES, None])
def test_what_a_file_said_before_counts_where_it_is_damaged(
    folder: Folder, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    folder.fill(5, 6)
    folder.file.unlink() if damage is None else folder.file.write_bytes(damage)
    state, table = folder.open()
    assert table.values == {"abc": 5}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{folder.file} is ")
    assert f"from {folder.backup}; later changes are lost" in record.getMessage()
    assert content(folder.file) == {"values": {"abc": 5}}  # and stands without its backup
    if damage:
        assert folder.damaged.read_bytes() == damage
    table.values["abc"] = 7
    state.save("t.json")
    assert content(folder.backup) == {"values": {"abc": 5}}


@pytest.mark.parametrize("before", [*DAMAGES, None])
@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_backup_a_damaged_file_is_one_clear_line_and_no_start(
    folder: Folder, damage: bytes, before: bytes | None
) -> None:
    folder.open()
    folder.file.write_bytes(damage)
    if before is not None:
        folder.backup.write_bytes(before)
    with pytest.raises(ConfigError) as raised:
        folder.open()
    text = str(raised.value)
    assert text.startswith(f"{folder.file} is ")
    assert f", and {folder.backup} is " in text
    assert text.endswith("or delete both to begin without their content")
    assert "\n" not in text
    assert folder.file.read_bytes() == damage


NOT_AS_WRITTEN = "{file} is not as it was written"


@pytest.mark.parametrize(
    ("file", "backup", "values", "told"),
    [
        ("changed", "sound", {"abc": 5}, f"{NOT_AS_WRITTEN}: taking its previous content from "
         "{file}.bak; later changes are lost; if it was edited, put {file}.damaged back without "
         'its "checksum"'),
        ("changed", "changed", {"abb": 6}, f"{NOT_AS_WRITTEN}, and {{file}}.bak is "),
        ("changed", "damaged", {"abb": 6}, f"{NOT_AS_WRITTEN}, and {{file}}.bak is "),
        ("changed", "missing", {"abb": 6}, f"{NOT_AS_WRITTEN}, and {{file}}.bak is "),
        ("damaged", "changed", {"abb": 5}, "{file} is damaged"),
        ("sound", "changed", {"abc": 6}, None),
        ("edited", "sound", {"abb": 6}, None),
        ("of Java's", "missing", {"a": 1}, None),
    ],
)  # fmt: skip
def test_a_changed_value_shows_and_content_without_a_checksum_is_taken(
    folder: Folder, file: str, backup: str, values: dict[str, int], told: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    folder.fill(5, 6)
    for path, state in ((folder.file, file), (folder.backup, backup)):
        if state == "changed":
            change(path)
        elif state == "damaged":
            path.write_bytes(b"{")
        elif state == "missing":
            path.unlink()
        elif state == "edited":
            change(path)
            edited = json.loads(path.read_bytes())
            del edited["checksum"]
            path.write_text(json.dumps(edited, indent=2))
        elif state == "of Java's":
            path.write_text('{\n\t"values":{"a":1}\n}')
    before = folder.file.read_bytes()
    assert folder.values == values
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    if told is None:
        assert messages == []
        return
    ((level, message),) = messages
    assert level == "ERROR"
    assert message.startswith(told.format(file=folder.file))
    if backup == "sound":
        assert folder.damaged.read_bytes() == before


@pytest.mark.parametrize("data", [b"{}", b'{"a":1}', '{"\u00e9":{"b":{0:7}}}'.encode()])
def test_every_flipped_bit_of_the_content_shows(data: bytes) -> None:
    whole = sealed(data)
    assert not is_broken(whole)
    assert not is_broken(whole + b"\n")
    for bit in range(8, 8 * len(data) - 8):  # the braces are not told from others'
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert is_broken(bytes(flipped))


def test_a_checksum_is_a_member_like_others() -> None:
    assert json.loads(sealed(b'{"a":1}'))["a"] == 1
    assert list(json.loads(sealed(b"{}"))) == ["checksum"]
    for data in (b"", b"{}", b'{"a":1}', b'{\n "checksum" : "0"}'):
        assert not is_broken(data), "content without a checksum is not judged"


def test_a_table_that_is_gone_with_its_backup_is_logged_unless_the_broker_is_new(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.open(state_module.OFFSETS)
    assert not caplog.records
    (folder.path / state_module.TOPICS).write_text("{}")
    assert folder.open(state_module.OFFSETS)[1].values == {}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{folder.path}/consumerOffset.json is not there, nor ")


def test_what_a_killed_process_left_is_removed_and_nothing_else(folder: Folder) -> None:
    folder.path.mkdir(parents=True)
    kept = ("t.json.tmp", "my.tmp", "t.json.0123abcd.tmp.bak", "t.json.0123ABCD.tmp",
            ".0123abcd.tmp")  # fmt: skip
    for name in (*kept, "t.json.0123abcd.tmp", "other.json.bak.89abcdef.tmp"):
        (folder.path / name).write_text("x")
    folder.open()
    assert sorted(path.name for path in folder.path.iterdir()) == sorted(kept)


@pytest.mark.parametrize("every_s", [0.0, 5.0])
async def test_changes_are_written_from_time_to_time_and_at_the_end(
    folder: Folder, every_s: float
) -> None:
    state, table = folder.open(every_s=every_s)
    state.start()
    table.values["a"] = 5
    if not every_s:
        await until(lambda: "t.json" in folder.disk.written)
    await state.close()
    assert folder.values == {"a": 5}


async def test_a_disk_that_fails_is_told_once(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    state, table = folder.open()
    table.values["a"] = 7
    folder.disk.error = StorageError("no room")
    for _ in range(2):
        await state.close()
    assert caplog.text.count("no room") == 1
    with pytest.raises(StorageError):
        state.save("t.json")
    folder.disk.error = None
    await state.close()
    assert folder.values == {"a": 7}


def test_an_older_copy_never_replaces_a_newer_one(folder: Folder) -> None:
    state, table = folder.open()
    file = state._files["t.json"]
    older = file.take()
    table.values["a"] = 8
    state.save("t.json")
    file.write(*older)
    assert folder.values == {"a": 8}


async def test_saving_aside_writes_what_the_table_says_now(folder: Folder) -> None:
    state, table = folder.open()
    table.values["a"] = 1
    await state.save_aside("t.json")
    assert content(folder.file) == {"values": {"a": 1}}
    folder.disk.error = StorageError("full")
    table.values["a"] = 2
    with pytest.raises(StorageError):
        await state.save_aside("t.json")


async def test_a_table_that_cannot_be_written_stops_no_other(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    state, table = folder.open()
    state.add("bad.json", lambda: 1 // 0, table.load)
    state.add("last.json", table.dump, table.load)
    table.values["a"] = 9
    await state.close()
    assert folder.disk.written.count("last.json") == 1
    assert "by zero" in caplog.text


async def test_what_finds_no_room_at_the_start_is_written_later(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker starts on a full disk: its consumers make room."""
    state, table = folder.open()
    table.values["a"] = 1
    folder.disk.error = DiskFullError("no space left on device")
    state.save("t.json")
    assert "failed to write the broker's state, trying again later - no space left" in caplog.text
    state.start()
    with pytest.raises(DiskFullError):
        state.save("t.json")
    folder.disk.error = None
    await state.close()
    assert content(folder.file) == {"values": {"a": 1}}
