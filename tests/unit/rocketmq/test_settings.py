"""Properties of the servers: under Java's names, in their files, of TLS."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.core.errors import ConfigError, StorageError
from penstock.core.settings import java_properties
from penstock.rocketmq import config_file
from penstock.rocketmq.java_settings import JavaSettings, java_name
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.tls_settings import TlsSettings
from penstock.storage.files.disk import OsDisk


class Sample(JavaSettings):
    """Two names by the rule, one that is odd."""

    listen_port: int = 1
    cluster_test: bool = False
    broker_ip1: str = "x"

    without_effect: ClassVar[frozenset[str]] = frozenset(("threads",))
    java_names: ClassVar[dict[str, str]] = {"brokerIP1": "broker_ip1"}


def test_loading_and_showing() -> None:
    text = "listenPort=7\nclusterTest=TRUE\nbrokerIP1=::1\n"
    settings, unknown = Sample.load(text + "threads=4\nodd=1")
    assert unknown == ["odd"]
    assert settings.as_text() == text.replace("TRUE", "true")
    assert Sample().listen_port == 1
    assert java_name("return_order_topic_config_to_broker") == "returnOrderTopicConfigToBroker"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listenPort=x", "listenPort must be a number"),
        ("clusterTest=1", "must be true or false"),
        ("brokerIP1=a\0b", "brokerIP1 must hold no NUL character"),
    ],
)
def test_bad_values_change_nothing(text: str, says: str) -> None:
    settings = Sample()
    with pytest.raises(ConfigError, match=says):
        settings.update({"brokerIP1": "new", **dict([text.split("=")])})
    assert settings.broker_ip1 == "x"


def test_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.properties"
    path.write_text("listenPort=9\nwhat=is\nlistenport=8\n")
    with caplog.at_level(logging.WARNING, "penstock"):
        assert Sample.load_file(str(path)).listen_port == 9
    assert "the property what is unknown and has no effect\n" in caplog.text
    assert "listenport is unknown and has no effect; did you mean listenPort?" in caplog.text
    assert Sample.load_file(None).listen_port == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"listenPort=many", r"a\.properties - listenPort must be a number"),
        (b"\xff", "it is not UTF-8 text"),
        (None, r"a\.properties - No such file or directory$"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "a.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        Sample.load_file(str(path))


# --- the name server ------------------------------------------------------------------------------


def test_java_configuration_files_load() -> None:
    settings, unknown = NamesrvSettings.load(
        "listenPort=9870\nserverWorkerThreads=8\nrocketmqHome=x\norderMessageEnable=true\nnew=1"
    )
    assert (settings.listen_port, settings.order_message_enable) == (9870, True)
    assert unknown == ["new"]
    assert "listenPort=9870\n" in settings.as_text()


def test_what_is_fixed_is_declared() -> None:
    known = {*NamesrvSettings.declared(), *NamesrvSettings.without_effect}
    assert NamesrvSettings.fixed <= known
    settings = NamesrvSettings()
    assert settings.fixed_names() == NamesrvSettings.fixed
    settings.config_black_list = "listenPort;clusterTest"
    assert settings.fixed_names() == {*NamesrvSettings.fixed, "listenPort", "clusterTest"}


# --- changes, in the file of a program ------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conf" / "x.properties"


def store(path: Path, *fixed: str, **changes: str) -> None:
    config_file.store(OsDisk(), str(path), changes, set(fixed))


def test_changes_join_what_the_file_says(path: Path) -> None:
    store(path, listenPort="1", folder="C:\\x")
    kept = path.with_name("x.properties.bak")
    assert not kept.exists()
    before = "# mine\n" + path.read_text()
    path.write_text(before)
    store(path, listenPort="2")
    assert java_properties.loads(path.read_text()) == {"listenPort": "2", "folder": "C:\\x"}
    assert kept.read_text() == before


def test_what_a_killed_process_left_is_removed_and_nothing_else(path: Path) -> None:
    path.parent.mkdir()
    left = [path.with_name(f"x.properties.{word}0123abcd.tmp") for word in ("", "bak.")]
    other = path.with_name("y.0123abcd.tmp")
    for each in (*left, other):
        each.write_text("half")
    store(path, a="b")
    assert [each.exists() for each in (*left, other)] == [False, False, True]


@pytest.mark.parametrize(
    ("content", "says"), [(b"\xff", r"x\.properties is not UTF-8"), (b"a=1\n", "would set a too")]
)
def test_a_file_stays_that_is_no_text_or_says_what_is_fixed(
    path: Path, content: bytes, says: str
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        store(path, "a", "c", a="2", b="3")
    assert path.read_bytes() == content


def test_fixed_properties_may_be_said_again(path: Path) -> None:
    store(path, a="1")
    store(path, "a", "c", a="1", b="3")
    assert path.read_bytes() == b"a=1\nb=3\n"


@pytest.mark.parametrize(("value", "fixed"), [("1\nb=2", ()), ("1\rb=2", ("b",)), ("\\", ())])
def test_what_would_be_read_back_differently_is_not_written(
    path: Path, value: str, fixed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that escapes nothing."""
    plain = lambda values: "".join(f"{name}={value}\n" for name, value in values.items())  # noqa: E731
    monkeypatch.setattr(java_properties, "dumps", plain)
    with pytest.raises(ConfigError, match="the change is refused"):
        store(path, *fixed, a=value)
    assert not path.exists()


def test_settings_and_file_change_together_or_not_at_all(tmp_path: Path) -> None:
    settings = NamesrvSettings()
    before = settings.as_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        config_file.apply(OsDisk(), f"{tmp_path}/file/x", settings, {"clusterTest": "true"}, set())
    assert settings.as_text() == before
    path, changes = tmp_path / "x", {"clusterTest": "true", "new": "1"}
    found = config_file.apply(OsDisk(), str(path), settings, changes, settings.fixed_names())
    assert found == ({"clusterTest": "true"}, ["new"])
    assert settings.cluster_test
    assert path.read_text() == "clusterTest=true\n"


@pytest.mark.parametrize("body", [b"\xff", b"a=\\u1", b"a=\\ud800"])
def test_bodies_without_sense_are_errors_of_their_senders(body: bytes) -> None:
    with pytest.raises(BodyError):
        config_file.asked(body)


# --- TLS; what it does is shown with the name server's port ---------------------------------------


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"tls.server.mode": "on"}, "disabled, permissive or enforcing, not 'on'"),
        ({"tls.server.mode": "enforcing"}, r"both tls\.server\.certPath and tls\.server\.keyPath"),
        ({"tls.server.certPath": "x"}, r"both tls\.server\.certPath and tls\.server\.keyPath"),
        ({"tls.server.need.client.auth": "optional"}, "none or require, not 'optional'"),
        ({"tls.server.authClient": "true"}, r"needs tls\.server\.trustCertPath"),
        ({"tls.server.certPath": "none", "tls.server.keyPath": "none"}, "open none: no such file"),
    ],
)
def test_properties_that_cannot_be(properties: dict[str, str], says: str) -> None:
    settings = TlsSettings()
    settings.update(properties)
    with pytest.raises(ConfigError, match=says):
        settings.server_tls()
