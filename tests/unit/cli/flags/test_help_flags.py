"""``penstock help flags`` as a user reads it."""

from __future__ import annotations

import pytest

from penstock.cli.flags.programs import mqadmin, programs
from tests.unit.cli.nodes_at_work import Commands


def test_the_flags_of_all_programs(command: Commands) -> None:
    ended = command("help", "flags")
    assert (ended.code, ended.err) == (0, "")
    headings = [line for line in ended.out.splitlines() if line and not line.startswith(" ")]
    assert headings == [*programs(), *(f"mqadmin {name}" for name in mqadmin())]
    assert "  --max-in-flight=int\n        max number of messages to allow" in ended.out


def test_words_choose_programs_and_flags(command: Commands) -> None:
    ended = command("help", "flags", "nsqd", "retention")
    lines = ended.out.splitlines()
    assert lines[0] == "nsqd"
    flags = [line.strip().partition("=")[0] for line in lines if line.startswith("  --")]
    assert {"--retention-time", "--retention-bytes"} <= set(flags)
    assert "--tcp-address" not in flags


def test_the_options_of_a_sub_command(command: Commands) -> None:
    ended = command("help", "flags", "mqadmin", "topicroute", "topic")
    assert ended.out == "mqadmin topicRoute\n  -t, --topic=value\n        topic name\n"
    ended = command("help", "flags", "clusterRT", "tlog")
    assert ended.out == "mqadmin clusterRT\n  -p value\n        print as tlog | default false\n"


@pytest.mark.parametrize("words", [("zzz",), ("nsqd", "zzz")])
def test_nothing_found_is_said(command: Commands, words: tuple[str, ...]) -> None:
    ended = command("help", "flags", *words)
    assert ended.code == 1
    assert ended.err == f"penstock: no flag of any program is about {' '.join(words)}\n"
