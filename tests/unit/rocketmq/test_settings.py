"""Properties of the servers: under Java's names, in their files, of TLS."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.core.errors import ConfigError, StorageError
from penstock.core.settings import java_properties
from penstock.rocketmq import config_file
from penstock.rocketmq.namesrv.settings import NamesrvSettings
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.settings import Settings, java_name
from penstock.rocketmq.tls_settings import TlsSettings
from penstock.storage.files.disk import OsDisk
from tools.harness.certificates import Certificates


class Sample(Settings):
    """Two names by the rule, one that is odd."""

    listen_port: int = 1
    cluster_test: bool = False
    broker_ip1: str = "x"

    without_effect: ClassVar[frozenset[str]] = frozenset(("threads",))
    java_names: ClassVar[dict[str, str]] = {"brokerIP1": "broker_ip1"}


def test_names() -> None:
    assert java_name("return_order_topic_config_to_broker") == "returnOrderTopicConfigToBroker"
    assert list(Sample.declared()) == ["listenPort", "clusterTest", "brokerIP1"]


def test_loading_and_showing() -> None:
    settings, unknown = Sample.load(
        "listenPort=7\nclusterTest=TRUE\nbrokerIP1=::1\nthreads=4\nodd=1"
    )
    assert unknown == ["odd"]
    assert settings.as_text() == "listenPort=7\nclusterTest=true\nbrokerIP1=::1\n"
    assert Sample().listen_port == 1


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
    path.write_text("listenPort=many")
    with pytest.raises(ConfigError, match=r"a\.properties - listenPort must be a number"):
        Sample.load_file(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="it is no UTF-8 text"):
        Sample.load_file(str(path))
    with pytest.raises(ConfigError, match=r"none - No such file or directory$"):
        Sample.load_file(str(tmp_path / "none"))


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


# --- TLS; what it does is shown with the name server's port ---------------------------------------


def test_without_certificate_there_is_no_tls() -> None:
    assert TlsSettings().server_tls() is None


def test_with_one_there_is_unless_disabled(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    text = f"tls.server.certPath={certificates.cert}\ntls.server.keyPath={certificates.key}\n"
    settings, unknown = TlsSettings.load(text)
    assert unknown == []
    assert settings.server_tls() is not None
    settings.update({"tls.server.mode": "disabled"})
    assert settings.server_tls() is None


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
