"""Properties under Java's names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.core.errors import ConfigError
from penstock.rocketmq.settings import Settings, java_name


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
