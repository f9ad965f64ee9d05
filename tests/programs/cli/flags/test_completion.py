"""The scripts of ``penstock completion``, which real shells read in the folder ``shells``."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.cli.flags.completion import Shell
from penstock.cli.flags.programs import mqadmin, programs
from tests.programs.cli.flags.shells.scripts import printed


@pytest.mark.parametrize("shell", get_args(Shell))
def test_every_program_and_command_is_in_the_script(shell: Shell) -> None:
    text = printed(shell)
    assert [each for each in ("penstock", *programs(), *mqadmin()) if each not in text] == []
