"""Completion: bash's script is read by a real bash, the others are looked at."""

from __future__ import annotations

import subprocess

import pytest

from penstock.cli.flags.completion import script
from penstock.cli.flags.programs import programs
from penstock.cli.penstock import app

# Sets what bash sets before it calls a function, and prints what the function would offer.
_ASK = """
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
{function}; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(code: str) -> list[str]:
    ended = subprocess.run(["bash", "-c", script(app, "bash") + code], capture_output=True,
                           text=True, timeout=60)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


def test_bash_completes_commands_and_flags_of_penstock() -> None:
    assert bash(_ASK.format(words="penstock pip", function="_penstock")) == ["pipeline"]
    assert bash(_ASK.format(words="penstock top --int", function="_penstock")) == ["--interval"]


def test_bash_completes_the_flags_of_every_program() -> None:
    offered = bash('\nfor each in $(complete -p nsqd | grep -o -- "--retention[a-z=-]*")\n'
                   'do echo "$each"; done')  # fmt: skip
    assert offered == ["--retention-bytes=", "--retention-time="]
    for program in programs():
        assert "-W" in bash(f"\ncomplete -p {program}")


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        ("zsh", ["compdef _cyclopts_penstock penstock", "compdef _penstock_nsqd nsqd",
                 "'*--topic=[NSQ topic (may be given multiple times)]:value:_default'"]),
        ("fish", ["complete -c mqbroker -l configFile -r -d 'properties, as Java\\'s has them'",
                  "complete -c nsq_tail -l print-topic -d "]),
    ],
)  # fmt: skip
def test_other_shells_get_every_program_too(shell: str, lines: list[str]) -> None:
    text = script(app, shell)  # type: ignore[arg-type]
    for line in lines:
        assert line in text
    assert all(program in text for program in programs())
