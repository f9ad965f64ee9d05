"""Sends, without a network."""

from __future__ import annotations

import pytest

from penstock.core.errors import TooManyFilesError
from penstock.rocketmq.broker.controller import Controller
from penstock.rocketmq.broker.send import sending
from penstock.rocketmq.protocol.codes import RequestCode
from tests.unit.rocketmq.broker.peers import FakePeer, request


def test_a_topic_that_there_is_no_room_for_is_not_made(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.topics.set_template(8, 1, inherited=True)
    monkeypatch.setattr(controller.node.registry, "_topics_max", 0)
    send = request(RequestCode.SEND_MESSAGE_V2, b"x", a="P", b="New", c="TBW102", d=4, e=0, f=0,
                   g=1, h=0, i="", j=0)  # fmt: skip
    with pytest.raises(TooManyFilesError):
        sending.send(controller, FakePeer().connection, send)
    assert "New" not in controller.topics.configs
    assert b"New" not in (controller.state.disk.read_file(_topics_file(controller)) or b"")


def _topics_file(controller: Controller) -> str:
    return f"{controller.settings.store_path_root_dir}/config/topics.json"
