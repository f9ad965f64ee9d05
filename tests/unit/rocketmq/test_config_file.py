"""Changed properties in a program's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import ConfigError, StorageError
from penstock.core.settings import java_properties
from penstock.rocketmq import config_file
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.files.disk import OsDisk

NOTHING: frozenset[str] = frozenset()


def test_changes_join_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "conf" / "broker.properties"
    config_file.store(OsDisk(), str(path), {"listenPort": "1", "path": "C:\\x"}, NOTHING)
    assert not (tmp_path / "conf" / "broker.properties.bak").exists()
    before = "# mine\n" + path.read_text()
    path.write_text(before)
    config_file.store(OsDisk(), str(path), {"listenPort": "2"}, NOTHING)
    assert java_properties.loads(path.read_text()) == {"listenPort": "2", "path": "C:\\x"}
    assert path.with_name("broker.properties.bak").read_text() == before


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = [tmp_path / f"x.{word}0123abcd.tmp" for word in ("", "bak.")]
    other = tmp_path / "y.0123abcd.tmp"
    for path in (*left, other):
        path.write_text("half")
    config_file.store(OsDisk(), str(tmp_path / "x"), {"a": "b"}, NOTHING)
    assert [path.exists() for path in (*left, other)] == [False, False, True]


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"x is no UTF-8"):
        config_file.store(OsDisk(), str(path), {"a": "b"}, NOTHING)
    assert path.read_bytes() == b"\xff"


def test_fixed_properties_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a=1\n")
    with pytest.raises(ConfigError, match="would set a too"):
        config_file.store(OsDisk(), str(path), {"a": "2", "b": "3"}, {"a", "c"})
    assert path.read_bytes() == b"a=1\n"
    config_file.store(OsDisk(), str(path), {"a": "1", "b": "3"}, {"a", "c"})
    assert path.read_bytes() == b"a=1\nb=3\n"


def test_what_would_be_read_back_differently_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that escapes nothing."""
    plain = lambda values: "".join(f"{name}={value}\n" for name, value in values.items())  # noqa: E731
    monkeypatch.setattr(java_properties, "dumps", plain)
    path = tmp_path / "x"
    for value, fixed in (("1\nb=2", NOTHING), ("1\rb=2", {"b"}), ("\\", NOTHING)):
        with pytest.raises(ConfigError, match="the change is refused"):
            config_file.store(OsDisk(), str(path), {"a": value}, fixed)
        assert not path.exists()


def test_settings_and_file_change_together_or_not_at_all(tmp_path: Path) -> None:
    settings = NamesrvSettings()
    before = settings.as_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        config_file.apply(OsDisk(), f"{tmp_path}/file/x", settings, {"clusterTest": "true"}, set())
    assert settings.as_text() == before
    path = tmp_path / "x"
    found = config_file.apply(
        OsDisk(), str(path), settings, {"clusterTest": "true", "new": "1"}, settings.fixed_names()
    )
    assert found == ({"clusterTest": "true"}, ["new"])
    assert settings.cluster_test
    assert path.read_text() == "clusterTest=true\n"


@pytest.mark.parametrize("body", [b"\xff", b"a=\\u1", b"a=\\ud800"])
def test_bodies_without_sense_are_errors_of_their_senders(body: bytes) -> None:
    with pytest.raises(BodyError):
        config_file.asked(body)
