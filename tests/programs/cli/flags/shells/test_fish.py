"""Fish's script, read by a real fish, which is asked what it would offer."""

from __future__ import annotations

import subprocess

from tests.debian import needed

from .scripts import COMPLETED, printed


def fish(*lines: str) -> list[str]:
    """The offers for each of these lines, with the help behind a tab."""
    asked = "".join(f"complete --do-complete '{line}'\n" for line in lines)
    text = f"{printed('fish')}\n{asked}"  # longer than an argument may be
    ended = subprocess.run([needed("fish", "fish"), "--no-config"], input=text,
                           capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_it_completes_commands_and_flags_with_their_help() -> None:
    offered = [line.split("\t") for line in fish(*(typed for typed, _ in COMPLETED))]
    assert [line[0] for line in offered] == [wanted.split()[-1] for _, wanted in COMPLETED]
    assert offered[3] == ["--configFile", "properties, as Java's has them"]
