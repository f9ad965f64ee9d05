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
    assert NamesrvSettings.fixed <= set(NamesrvSettings.declared())
    assert set(NamesrvSettings().config_black_list.split(";")) == NamesrvSettings.fixed
