"""A reader who follows a page command by command, over daemons on other ports.

A command must end well, a program is saved under the name in its first line, and a block of text
must stand in the output of the commands before it; one of a log in nsqd's, whatever the figures.
What would not end is not run: its flags must exist.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.flags.programs import programs
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tools.pages.documentation import all_blocks, replaced

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
LASTING = ("nsqlookupd", "nsqd", "nsqadmin", "mqnamesrv", "mqbroker", "nsq_to_nsq")
"""Programs that a reader leaves running; the daemons among them run already, on other ports."""
ENDING = {"--version", "-p"}
"""Flags with which they print something and end."""


class Reader:
    """Somebody with a folder and daemons of their own."""

    def __init__(self, folder: Path, addresses: dict[str, str], log: str = "") -> None:
        self.folder, self._addresses, self._log = folder, addresses, log
        self._known = {name: {flag.name for flag in flags} for name, flags in programs().items()}
        self._said = ""
        self.starts: dict[str, Callable[[], object]] = {}
        """What to do at commands that are not run."""

    def follow(self, page: Path) -> None:
        for language, text in all_blocks(page):
            if language == "python":
                self.save(text)
            elif language == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    self._command(line)
            elif language == "cron":
                self._command(text.split(maxsplit=6)[-1])
            elif language == "log":
                assert without_figures(text) in without_figures(self._log)
            else:
                assert language == "text"
                assert text.rstrip() in self._said
                self._said = ""

    def save(self, text: str) -> Path:
        found = re.match(r"# (\w+\.py)\n", text)
        assert found, text
        file = self.folder / found[1]
        file.write_text(self._here(text))
        return file

    def _command(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if words[0] in LASTING and not ENDING & set(words):
            flags = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
            assert flags <= self._known[words[0]], line
            self.starts.get(line, lambda: None)()
            return
        words_of_bash = ["bash", "-c", self._here(strict(line))]
        ended = subprocess.run(words_of_bash, capture_output=True, text=True,
                               timeout=300, env=ENVIRONMENT, cwd=self.folder)  # fmt: skip
        fine = (0, 1) if words[:2] == ["penstock", "doctor"] else (0,)  # 1: there are faults
        assert ended.returncode in fine, (line, ended.stderr)
        self._said += ended.stdout

    def _here(self, text: str) -> str:
        return replaced(text, self._addresses)


def strict(line: str) -> str:
    """A command of curl so that it fails if it is refused."""
    return line if "--fail" in line else re.sub(r"^curl ", "curl --fail-with-body ", line)


def without_figures(log: str) -> str:
    """The log's lines without their figures, units of size and paths."""
    text = re.sub(r"^.*?(INFO: )", r"\1", log, flags=re.MULTILINE)
    return re.sub(r"\S*/\S*(?= |$|,)|[\d.]+( [kMG]?B| bytes)?", "_", text)


@contextmanager
def reader_of(data: Path) -> Iterator[Reader]:
    """A reader beside an nsqlookupd and an nsqd on this data path."""
    with (
        run_nsqlookupd() as lookupd,
        run_nsqd(
            f"--lookupd-tcp-address={lookupd.tcp}", "--retention-time=24h", data_path=data
        ) as nsqd,
    ):
        yield Reader(data.parent, addresses(lookupd, nsqd), nsqd.log())


def addresses(lookupd: Daemon, nsqd: Daemon) -> dict[str, str]:
    return {
        "127.0.0.1:4150": nsqd.tcp, "127.0.0.1:4151": nsqd.http, "127.0.0.1:4161": lookupd.http,
        "127.0.0.1:5150": nsqd.tcp, "127.0.0.1:5151": nsqd.http,
        "/var/lib/penstock/nsqd": str(nsqd.data_path), "/opt/penstock/bin/": "",
        "/var/lib/penstock": f"{nsqd.data_path}-other", "/var/backups": f"{nsqd.data_path}-backups",
    }  # fmt: skip
