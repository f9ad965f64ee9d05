"""The flags of all programs that the package installs."""

from __future__ import annotations

import tomllib

from penstock.cli.flags.programs import Flag, programs
from tools.pages.documentation import ROOT


def test_every_installed_program_is_there_but_those_of_sub_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert programs().keys() == project["scripts"].keys() - {"penstock", "mqadmin"}


def test_flags_are_as_they_are_typed() -> None:
    found = {program: {each.name: each for each in flags} for program, flags in programs().items()}
    timeout = found["nsqd"]["--msg-timeout"]
    assert timeout.shown == "--msg-timeout=duration"
    assert timeout.help.endswith("(default 1m0s)")
    assert found["nsq_tail"]["--version"].shown == "--version"
    names = found["mqbroker"]["--namesrvAddr"]
    assert (names.value, names.help[:12]) == ("HOST:PORT;...", "name servers")
    assert found["mqnamesrv"]["--printConfigItem"] == Flag(
        "--printConfigItem", "", "print all properties"
    )
