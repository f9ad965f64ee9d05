from __future__ import annotations

from importlib import import_module

import pytest

from penstock.rocketmq.mqadmin.options import SubCommand
from penstock.rocketmq.mqadmin.sub_commands import SUB_COMMANDS, find


def test_there_are_upstreams_57() -> None:
    assert len({each.name for each in SUB_COMMANDS}) == 57


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert find("TOPICLIST") is find("topicList")
    assert find("deleteAccessConfig") is find("deleteAclConfig")
    assert find("nosuch") is None
    assert find("") is None


@pytest.mark.parametrize("command", SUB_COMMANDS, ids=lambda each: each.name)
def test_each_is_there(command: SubCommand) -> None:
    module, _, function = command.home.rpartition(".")
    assert callable(
        getattr(import_module(f"penstock.rocketmq.mqadmin.commands.{module}"), function)
    )
    letters = [each.letter for each in command.options if each.letter]
    assert len(letters) == len(set(letters))
