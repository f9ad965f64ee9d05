"""TLS contexts that follow their files."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.net.tls.renewal import LOOK_NS, Renewed
from penstock.testing.clock import FakeClock


class Bench:
    """Two files of which contexts are made, by a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "cert", folder / "key"]
        for file in self.files:
            file.write_text("1")
        self.clock = FakeClock()
        self.made: list[ssl.SSLContext] = []

    def make(self) -> ssl.SSLContext:
        if len({file.read_text() for file in self.files}) != 1:
            raise ConfigError("cert and key do not fit")
        self.made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return self.made[-1]

    def renewed(self) -> Renewed:
        return Renewed(self.make, *map(str, self.files), "", clock=self.clock)

    def replace(self, *files: Path) -> None:
        for file in files:
            other = file.with_suffix(".new")
            other.write_text("2")
            os.replace(other, file)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_files_that_stay_are_read_once(bench: Bench) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.clock.advance(LOOK_NS)
    assert renewed() is first
    assert bench.made == [first]


def test_files_that_change_are_read_again_a_second_later(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    renewed = bench.renewed()
    first = renewed()
    bench.replace(*bench.files)
    bench.clock.advance(LOOK_NS - 1)
    assert renewed() is first
    bench.clock.advance(1)
    second = renewed()
    assert bench.made == [first, second]
    assert caplog.messages == [f"TLS: read {bench.files[0]}, {bench.files[1]} again"]


def test_half_of_a_renewal_leaves_the_context_until_the_other_half(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.replace(bench.files[0])
    for _ in range(3):
        bench.clock.advance(LOOK_NS)
        assert renewed() is first
    assert caplog.messages == [
        "TLS goes on with the certificates it has - cert and key do not fit"
    ], "once"
    bench.replace(bench.files[1])
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_files_that_could_not_be_read_are_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = bench.renewed()
    first = renewed()
    bench.replace(*bench.files)

    def fails(path: Path) -> str:
        raise ConfigError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fails)
        for _ in range(2):
            bench.clock.advance(LOOK_NS)
            assert renewed() is first
    assert caplog.text.count("too many open files") == 1
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_a_file_that_is_gone_for_a_while(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def make() -> ssl.SSLContext:
        try:
            return bench.make()
        except OSError as error:
            raise ConfigError(str(error)) from error

    renewed = Renewed(make, *map(str, bench.files), clock=bench.clock)
    first = renewed()
    text = bench.files[0].read_text()
    bench.files[0].unlink()
    bench.clock.advance(LOOK_NS)
    assert renewed() is first
    assert "No such file" in caplog.text
    bench.files[0].write_text(text)
    bench.clock.advance(LOOK_NS)
    assert renewed() is bench.made[1]


def test_what_cannot_be_used_at_the_start_is_an_error(bench: Bench) -> None:
    bench.replace(bench.files[1])
    with pytest.raises(ConfigError, match="do not fit"):
        bench.renewed()
