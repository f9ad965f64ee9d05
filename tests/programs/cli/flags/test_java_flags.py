"""The flags of mqbroker and mqnamesrv, as a user types them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock import __version__


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"penstock.cli.{program}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", ["mqbroker", "mqnamesrv"])
def test_the_version_says_whose_and_of_what(program: str) -> None:
    ended = run(program, "--version")
    said = f"{program} of Penstock {__version__}, as RocketMQ 4.9.8\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, said, "")


@pytest.mark.parametrize(
    ("program", "flag", "hint"),
    [
        ("mqbroker", "--nmesrvAddr=a:1", "; did you mean --namesrvAddr?"),
        ("mqnamesrv", "--confgFile", "; did you mean --configFile?"),
        ("mqnamesrv", "--zzz", ""),
    ],
)
def test_an_unknown_flag_is_explained_on_the_last_line(program: str, flag: str, hint: str) -> None:
    ended = run(program, flag)
    assert ended.returncode == 2
    said = f"{program}: error: unrecognized arguments: {flag}{hint}"
    assert ended.stderr.splitlines()[-1] == said
