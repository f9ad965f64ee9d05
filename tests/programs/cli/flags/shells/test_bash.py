"""Bash's script, read by a real bash, which is asked what it would offer."""

from __future__ import annotations

import subprocess

import pytest

from penstock.cli.flags.programs import programs

from .scripts import printed

# Sets what bash sets before it calls a function, and prints what the function would offer.
_ASK = """
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
{function}; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(code: str) -> list[str]:
    ended = subprocess.run(["bash", "-c", printed("bash") + code], capture_output=True, text=True,
                           timeout=60)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_it_completes_commands_and_flags_of_penstock() -> None:
    assert bash(_ASK.format(words="penstock pip", function="_penstock")) == ["pipeline"]
    assert bash(_ASK.format(words="penstock top --int", function="_penstock")) == ["--interval"]


def test_it_completes_the_flags_of_every_program() -> None:
    offered = bash('\nfor each in $(complete -p nsqd | grep -o -- "--retention[a-z=-]*")\n'
                   'do echo "$each"; done')  # fmt: skip
    assert offered == ["--retention-bytes=", "--retention-time="]
    known = bash(f"\ncomplete -p {' '.join(programs())}")
    assert known.count("-W") == len(programs())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mqadmin topicRou", ["topicRoute"]),
        ("mqadmin topicRoute --l", ["--list"]),
        ("mqadmin topicRoute --namesrv", ["--namesrvAddr="]),
        ("mqadmin clusterRT -p", ["-p"]),
        ("mqadmin help clusterL", ["clusterList"]),
        ("mqadmin nosuch --", []),
    ],
)
def test_it_completes_mqadmin(words: str, offered: list[str]) -> None:
    assert bash(_ASK.format(words=words, function="_penstock_mqadmin")) == offered
