"""The mqadmin command as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.harness.ports import unused_address

COMMAND = [sys.executable, "-m", "penstock.cli.mqadmin"]
HEAVY = (
    "numpy", "urllib.request", "asyncio", "uvloop", "cyclopts", "penstock.broker",
    "penstock.storage.log", "penstock.rocketmq.broker", "penstock.rocketmq.client.aio",
    "penstock.rocketmq.client.consume.group",
)  # fmt: skip


def test_a_command_line() -> None:
    found = subprocess.run([*COMMAND, "help", "topicList"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith("usage: mqadmin topicList ")


def test_nothing_heavy_is_imported_to_ask_a_server() -> None:
    """A start takes a fifth of a second, most of it Python's own."""
    program = (
        "import sys; from penstock.rocketmq.mqadmin.program import run; "
        f"run(['topicList', '-n', {unused_address()!r}]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "[]\n"


def test_a_reader_that_has_enough_ends_it_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for words in ([], ["help", "topicList"], ["topicList", "--json", "-n", unused_address()]):
        found = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE)
        assert (found.returncode, found.stderr) == (0, b"")
    os.close(writer)
