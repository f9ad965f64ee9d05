"""Faults of a RocketMQ broker's tables are found as its start would meet them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.doctor.report import Level
from penstock.cli.doctor.tables import examine_tables
from penstock.rocketmq.broker.store import seal
from penstock.storage.files.disk import OsDisk

GOOD = seal.sealed(b'{"dataVersion":{}}')


@pytest.mark.parametrize(
    ("table", "previous", "level", "said"),
    [
        (GOOD, None, None, ""),
        (b'{"dataVersion":{}}', None, None, ""),
        (GOOD.replace(b"data", b"dada"), GOOD, Level.WARNING, "not as the broker wrote it"),
        (GOOD[:9], GOOD, Level.WARNING, "it is damaged"),
        (b"", GOOD, Level.WARNING, "it is damaged"),
        (GOOD[:9], GOOD[:9], Level.ERROR, "and so is topics.json.bak"),
        (GOOD[:9], None, Level.ERROR, "and so is topics.json.bak, or it is missing"),
    ],
)
def test_a_table_and_its_previous_content(
    tmp_path: Path, table: bytes, previous: bytes | None, level: Level | None, said: str
) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "topics.json").write_bytes(table)
    if previous is not None:
        (folder / "topics.json.bak").write_bytes(previous)
    (folder / "plain_acl.yml").write_text("no table")
    found = list(examine_tables(OsDisk(), str(tmp_path)))
    assert [each.level for each in found] == ([level] if level else [])
    assert all(said in each.what and each.where == f"{folder}/topics.json" for each in found)


def test_a_data_path_without_tables_has_none(tmp_path: Path) -> None:
    assert list(examine_tables(OsDisk(), str(tmp_path))) == []
