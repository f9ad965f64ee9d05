"""Changed properties in a program's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core import java_properties
from penstock.core.errors import ConfigError
from penstock.rocketmq import config_file
from penstock.storage.disk import OsDisk


def test_changes_join_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "conf" / "broker.properties"
    config_file.store(OsDisk(), str(path), {"listenPort": "1", "path": "C:\\x"})
    assert not (tmp_path / "conf" / "broker.properties.bak").exists()
    before = "# mine\n" + path.read_text()
    path.write_text(before)
    config_file.store(OsDisk(), str(path), {"listenPort": "2"})
    assert java_properties.loads(path.read_text()) == {"listenPort": "2", "path": "C:\\x"}
    assert path.with_name("broker.properties.bak").read_text() == before


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"x is no UTF-8"):
        config_file.store(OsDisk(), str(path), {"a": "b"})
    assert path.read_bytes() == b"\xff"
