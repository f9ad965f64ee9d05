"""The commands and their help."""

from __future__ import annotations

import pytest

from tests.unit.cli.nodes_at_work import Commands


@pytest.mark.parametrize("name", ["list", "show", "resend", "export"])
def test_every_flag_is_explained(command: Commands, name: str) -> None:
    ended = command("dlq", name, "--help")
    assert ended.code == 0
    assert "--nsqd-http-address" in ended.out
    assert "--lookupd-http-address" in ended.out


def test_an_unknown_command(command: Commands) -> None:
    ended = command("dlq", "bury")
    assert ended.code != 0
    assert "bury" in ended.out + ended.err
