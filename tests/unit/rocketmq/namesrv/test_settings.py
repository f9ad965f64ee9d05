"""The name server's properties."""

from __future__ import annotations

from penstock.rocketmq.namesrv.settings import NamesrvSettings


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
