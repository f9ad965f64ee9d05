"""The broker's tables in files."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError, DiskFullError, StorageError
from penstock.rocketmq.broker.state import files as state_module
from penstock.rocketmq.broker.state.files import StateFiles
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import OsDisk


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


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "store" / "config"


def table_in(path: Path) -> Any:
    """The table in a file, without its checksum."""
    value = json.loads(path.read_bytes())
    assert re.fullmatch("[0-9a-f]{16}", value.pop("checksum"))
    return value


def opened(disk: CountingDisk, directory: Path, every_s: float = 5.0) -> tuple[StateFiles, Table]:
    table = Table()
    state = StateFiles(disk, str(directory), lambda: every_s)
    state.add("t.json", table.dump, table.load)
    return state, table


def test_what_was_saved_is_loaded(disk: CountingDisk, directory: Path) -> None:
    state, table = opened(disk, directory)
    table.values["a"] = 1
    state.save("t.json")
    assert opened(disk, directory)[1].values == {"a": 1}


def test_nothing_is_written_when_nothing_changed(disk: CountingDisk, directory: Path) -> None:
    state, _ = opened(disk, directory)
    state.save("t.json")
    state.save("t.json")
    assert disk.written == ["t.json"]
    again, _ = opened(disk, directory)
    again.save("t.json")
    assert disk.written == ["t.json"]


def test_the_content_before_stays_as_backup(disk: CountingDisk, directory: Path) -> None:
    state, table = opened(disk, directory)
    for number in range(3):
        table.values["a"] = number
        state.save("t.json")
    assert table_in(directory / "t.json.bak") == {"values": {"a": 1}}
    (directory / "t.json").unlink()
    assert opened(disk, directory)[1].values == {"a": 1}


DAMAGES = (b"", b"\n", bytes(32), b"{", b"[]", b'{"other":1}', b"\xff\xfe", b'{"values":{"a":')


@pytest.mark.parametrize("content", [*DAMAGES, None])
def test_what_a_file_said_before_counts_where_it_is_damaged(
    disk: CountingDisk, directory: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    state, table = opened(disk, directory)
    for number in (5, 6):
        table.values["a"] = number
        state.save("t.json")
    file = directory / "t.json"
    file.unlink() if content is None else file.write_bytes(content)
    state, table = opened(disk, directory)
    assert table.values == {"a": 5}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{file} is ")
    assert f"from {file}.bak; later changes are lost" in record.getMessage()
    assert table_in(file) == {"values": {"a": 5}}  # and stands without its backup
    if content:
        assert (directory / "t.json.damaged").read_bytes() == content
    table.values["a"] = 7
    state.save("t.json")
    assert table_in(directory / "t.json.bak") == {"values": {"a": 5}}


@pytest.mark.parametrize("before", [*DAMAGES, None])
@pytest.mark.parametrize("content", DAMAGES)
def test_without_a_backup_a_damaged_file_is_one_clear_line_and_no_start(
    disk: CountingDisk, directory: Path, content: bytes, before: bytes | None
) -> None:
    opened(disk, directory)
    (directory / "t.json").write_bytes(content)
    if before is not None:
        (directory / "t.json.bak").write_bytes(before)
    with pytest.raises(ConfigError) as raised:
        opened(disk, directory)
    text = str(raised.value)
    assert text.startswith(f"{directory}/t.json is ")
    assert f", and {directory}/t.json.bak is " in text
    assert text.endswith("or delete both to begin without their content")
    assert "\n" not in text
    assert (directory / "t.json").read_bytes() == content


def saved(disk: CountingDisk, directory: Path) -> Path:
    """A file with the value 6, behind a backup with 5."""
    state, table = opened(disk, directory)
    for number in (5, 6):
        table.values["abc"] = number
        state.save("t.json")
    return directory / "t.json"


def change(file: Path) -> None:
    """Turn one letter into another, so that it is JSON as before."""
    file.write_bytes(file.read_bytes().replace(b'"abc"', b'"abb"'))


def test_a_changed_value_gives_way_to_the_content_before(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = saved(disk, directory)
    change(file)
    changed = file.read_bytes()
    assert opened(disk, directory)[1].values == {"abc": 5}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        f"{file} is not as it was written: taking its previous content from {file}.bak; later "
        f'changes are lost; if it was edited, put {file}.damaged back without its "checksum"'
    )
    assert (directory / "t.json.damaged").read_bytes() == changed


def test_an_edited_file_without_its_checksum_is_taken(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = saved(disk, directory)
    change(file)
    edited = json.loads(file.read_bytes())
    del edited["checksum"]
    file.write_text(json.dumps(edited, indent=2))
    assert opened(disk, directory)[1].values == {"abb": 6}
    assert not caplog.records


@pytest.mark.parametrize("backup", ["changed", "damaged", "missing"])
def test_a_changed_value_without_a_good_backup_is_taken_and_logged(
    disk: CountingDisk, directory: Path, backup: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = saved(disk, directory)
    before = directory / "t.json.bak"
    change(file)
    if backup == "changed":
        change(before)
    else:
        before.write_bytes(b"{") if backup == "damaged" else before.unlink()
    assert opened(disk, directory)[1].values == {"abb": 6}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{file} is not as it was written, and {before} is ")


def test_a_changed_backup_is_better_than_a_damaged_file(
    disk: CountingDisk, directory: Path
) -> None:
    file = saved(disk, directory)
    file.write_bytes(b"{")
    change(directory / "t.json.bak")
    assert opened(disk, directory)[1].values == {"abb": 5}


def test_a_changed_backup_is_of_no_account_beside_its_file(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(disk, directory)
    change(directory / "t.json.bak")
    assert opened(disk, directory)[1].values == {"abc": 6}
    assert not caplog.records


def test_a_file_of_javas_broker_has_no_checksum_and_is_taken(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(disk, directory)
    (directory / "t.json").write_text('{\n\t"values":{"a":1}\n}')
    assert opened(disk, directory)[1].values == {"a": 1}
    assert not caplog.records


def offsets_of(disk: CountingDisk, directory: Path) -> Table:
    table = Table()
    StateFiles(disk, str(directory)).add(state_module.OFFSETS, table.dump, table.load)
    return table


def test_a_table_that_is_gone_with_its_backup_is_logged_unless_the_broker_is_new(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets_of(disk, directory)
    assert not caplog.records
    (directory / state_module.TOPICS).write_text("{}")
    assert offsets_of(disk, directory).values == {}
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"{directory}/consumerOffset.json is not there, nor ")


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    disk: CountingDisk, directory: Path
) -> None:
    directory.mkdir(parents=True)
    kept = (
        "t.json.tmp",
        "my.tmp",
        "t.json.0123abcd.tmp.bak",
        "t.json.0123ABCD.tmp",
        ".0123abcd.tmp",
    )
    for name in (*kept, "t.json.0123abcd.tmp", "other.json.bak.89abcdef.tmp"):
        (directory / name).write_text("x")
    opened(disk, directory)
    assert sorted(path.name for path in directory.iterdir()) == sorted(kept)


async def test_changes_are_written_from_time_to_time(disk: CountingDisk, directory: Path) -> None:
    state, table = opened(disk, directory, 0.0)
    state.start()
    table.values["a"] = 5
    async with asyncio.timeout(30):
        while "t.json" not in disk.written:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await state.close()
    assert opened(disk, directory)[1].values == {"a": 5}


async def test_closing_writes_what_changed(disk: CountingDisk, directory: Path) -> None:
    state, table = opened(disk, directory)
    state.start()
    table.values["a"] = 6
    await state.close()
    assert opened(disk, directory)[1].values == {"a": 6}


async def test_a_disk_that_fails_is_told_once(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, table = opened(disk, directory)
    table.values["a"] = 7
    disk.error = StorageError("no room")
    await state.close()
    await state.close()
    assert caplog.text.count("no room") == 1
    with pytest.raises(StorageError):
        state.save("t.json")
    disk.error = None
    await state.close()
    assert opened(disk, directory)[1].values == {"a": 7}


def test_an_older_copy_never_replaces_a_newer_one(disk: CountingDisk, directory: Path) -> None:
    state, table = opened(disk, directory)
    file = state._files["t.json"]
    older = file.take()
    table.values["a"] = 8
    state.save("t.json")
    file.write(*older)
    assert opened(disk, directory)[1].values == {"a": 8}


async def test_saving_aside_writes_what_the_table_says_now(
    disk: CountingDisk, directory: Path
) -> None:
    state, table = opened(disk, directory)
    table.values["a"] = 1
    await state.save_aside("t.json")
    assert table_in(directory / "t.json") == {"values": {"a": 1}}
    disk.error = StorageError("full")
    table.values["a"] = 2
    with pytest.raises(StorageError):
        await state.save_aside("t.json")


async def test_a_table_that_cannot_be_written_stops_no_other(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, table = opened(disk, directory)
    state.add("bad.json", lambda: 1 // 0, table.load)
    state.add("last.json", table.dump, table.load)
    table.values["a"] = 9
    await state.close()
    assert disk.written.count("last.json") == 1
    assert "by zero" in caplog.text


async def test_what_finds_no_room_at_the_start_is_written_later(
    disk: CountingDisk, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker starts on a full disk: its consumers make room."""
    state, table = StateFiles(disk, str(directory)), Table()
    state.add("t.json", table.dump, table.load)
    table.values["a"] = 1
    disk.error = DiskFullError("no space left on device")
    state.save("t.json")
    assert "failed to write the broker's state, trying again later - no space left" in caplog.text
    state.start()
    with pytest.raises(DiskFullError):
        state.save("t.json")
    disk.error = None
    await state.close()
    assert table_in(directory / "t.json") == {"values": {"a": 1}}
