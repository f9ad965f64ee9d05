from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import StorageError
from penstock.spark.compaction import sink_log
from penstock.spark.compaction.sink_log import SinkLog, Written
from tests.unit.spark.compaction import lake


def test_the_newest_compact_file_is_what_is_settled(tmp_path: Path) -> None:
    made = lake.make(tmp_path / "lake")
    (made / lake.LOG / "9.compact").rename(made / lake.LOG / "19.compact")
    (made / lake.LOG / "9.compact").write_text("v1")
    log = sink_log.settled(made)
    assert log is not None
    assert log.path.name == "19.compact"
    assert len(log.files) == lake.SETTLED * len(lake.HOURS)
    assert all(file.exists() for file in log.files)


def test_there_may_be_none(tmp_path: Path) -> None:
    assert not sink_log.exists(tmp_path)
    assert sink_log.settled(tmp_path) is None
    made = lake.make(tmp_path / "lake", batches=3)
    assert sink_log.exists(made)
    assert sink_log.settled(made) is None


def test_a_file_takes_the_place_of_the_first_of_its_old_ones(tmp_path: Path) -> None:
    files = [tmp_path / f"a%b/{number}.parquet" for number in range(4)]
    (tmp_path / "a%b").mkdir()
    for file in files:
        file.touch()
    text = "\n".join(["v1", *map(lake.entry, files)])
    log = SinkLog(Path("9.compact"), text)
    new = Written(tmp_path / "a%b/new.parquet", 5, 6)
    changed = SinkLog(Path("9.compact"), log.replaced({new: files[1:3]}))
    assert changed.files == [files[0], new.path, files[3]]
    assert '/a%25b/new.parquet","size":5,"isDir":false,"modificationTime":6,' in log.replaced(
        {new: files[1:3]}
    )
    # Once more it changes nothing, and neither do files that the log does not have.
    assert changed.replaced({new: files[1:3]}) == log.replaced({new: files[1:3]})
    assert log.replaced({}) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v2\n{}", "version 'v2' of Spark's log is not known"),
        ("", "version '' of"),
        ("v1\n{", "9.compact:2: no entry of Spark's log"),
        ('v1\n{"size":1}', "9.compact:2: no entry"),
    ],
)
def test_a_log_that_is_not_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        SinkLog(Path("9.compact"), text)
