"""A reader's shell: commands that end, programs that go on, and sessions with what they show."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from urllib.request import urlopen

from penstock.testing.daemons import Daemon
from tests.daemon_commands import properties
from tests.forwarding import publish, wait_until
from tests.page_site import Site
from tools.harness.ports import unused_address
from tools.pages.documentation import replaced

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
BEGUN = re.compile(rb"listening on|connecting to nsqd|ingress|producer to|^(data|event):", re.M)
"""What a program that goes on for ever says when it has begun."""
DAEMONS = {
    "nsqd": "--http-address={http} --tcp-address=127.0.0.1:0 --https-address=127.0.0.1:0 "
    "--data-path={data}",
    "nsqadmin": "--http-address=127.0.0.1:0",
    "mqbroker": "-c {file}",
    "mqnamesrv": "-c {file}",
}
"""The ports and folders of the tests."""
LASTING = re.compile(rf"({'|'.join(DAEMONS)}|nsq_\w+|tail -F|curl -sN)( |$)")
ENDING = re.compile(r" (-p|--version|--count=\d+)( |$)|^nsq_tail .*-n ")
"""What makes a program among them end by itself."""
SHORTER = {"--interval=1s --count=60": "--interval=100ms --count=2", "--rate=5000": "--rate=50",
           "--rate 8000": "--rate 10",
           "--topic-pattern": "--topic-refresh=100ms --topic-pattern"}  # fmt: skip
TO_NODES = re.compile(r"^(penstock (?:top|replay|dlq \w+))\b(?!.*-http-address)")
"""Commands that ask the usual node unless they are told another."""


class Terminal:
    """The shell of somebody who reads a page, in the folder of the site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._nodes = {"a:4151": unused_address(), "b:4151": unused_address()}

    def run(self, block: str) -> None:
        """Run a block of commands; what goes on for ever ends with it."""
        lines = block.replace("\\\n", " ").splitlines()
        with ExitStack() as stack:
            for lasts, part in groupby(filter(None, lines), goes_on):
                if lasts:
                    for line in part:
                        stack.enter_context(self._begun(line))
                else:
                    self.said("\n".join(part))

    def said(self, script: str, *, fails: bool = False) -> str:
        """What these commands print; they must end well unless they may fail."""
        with self._publishing("events" if "nsq_tail" in script else ""):
            ended = subprocess.run(
                ["bash", "-ec", self._here(script)], cwd=self._site.folder, env=ENVIRONMENT,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
            )  # fmt: skip
        assert fails or ended.returncode == 0, (script, ended.stdout)
        return ended.stdout

    def interrupted(self, command: str, topic: str) -> str:
        """What a command prints that gets Ctrl-C once it has published some to a topic."""
        nsqd = self._site.nsqd
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self._here(command)}"], cwd=self._site.folder, env=ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            wait_until(lambda: process.poll() is not None or messages(nsqd, topic) > 1,
                       lambda: f"{command}: nothing in {topic}")  # fmt: skip
            process.send_signal(signal.SIGINT)
            return process.communicate(timeout=60)[0]
        finally:
            process.kill()

    @contextmanager
    def _publishing(self, topic: str) -> Iterator[None]:
        """Messages that come all the time, for what waits for them."""
        over = threading.Event()

        def publish_on() -> None:
            while topic and not over.wait(0.05):
                publish(self._site.nsqd, topic, [b'{"user": "ann"}'])

        thread = threading.Thread(target=publish_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _here(self, script: str) -> str:
        """The commands with the daemons of the site, and refusals of curl's as failures."""
        script = re.sub(r"^curl (?!-i )", "curl --fail-with-body ", script, flags=re.M)
        script = re.sub(TO_NODES, r"\1 --nsqd-http-address 127.0.0.1:4151", script)
        return replaced(script, SHORTER | self._nodes | self._site.own())

    @contextmanager
    def _begun(self, line: str) -> Iterator[None]:
        """A program that has begun, and at the end ends well when it is told to."""
        words = ["bash", "-c", self._here(self._with_own(line))]
        with TemporaryFile() as output:
            process = subprocess.Popen(
                words, cwd=self._site.folder, env=ENVIRONMENT, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

            def said() -> bytes:
                return os.pread(output.fileno(), 1 << 20, 0)

            try:
                wait_until(
                    lambda: process.poll() is not None or bool(BEGUN.search(said())),
                    lambda: f"{line}: {said()!r}",
                )
                assert process.poll() is None, (line, said())
                yield
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                code = process.wait(60)
        piped = "|" in line or line.startswith("curl")
        assert code in ({0, -signal.SIGTERM} if piped else {0}), (line, said())

    def _with_own(self, line: str) -> str:
        """The command with ports and folders of its own."""
        program, _, rest = line.partition(" ")
        data = Path(mkdtemp(dir=self._site.folder))
        http = "127.0.0.1:0"
        if "/var/lib/penstock/nsqd" in line or "--replicas" in line:
            http = self._nodes["b:4151" if "--follow=a" in line else "a:4151"]
        file = properties(program, data) if program.startswith("mq") else ""
        own = DAEMONS.get(program, "").format(http=http, data=data, file=file)
        rest = re.sub(r"^-c \S+", "", rest)  # the page's file is in the other's place
        return f"{program} {own} {rest}".replace("=/var/lib/penstock/nsqd", f"={data}")


def goes_on(line: str) -> bool:
    """Whether a command's program runs until it is told to end."""
    return bool(LASTING.match(line)) and not ENDING.search(line)


def messages(nsqd: Daemon, topic: str) -> int:
    """How many messages a topic has had."""
    with urlopen(f"http://{nsqd.http}/stats?format=json&topic={topic}") as answer:
        return sum(each["message_count"] for each in json.load(answer)["topics"] or ())


def session(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a session, each with the lines that it shows."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip()]


def shape(line: str) -> str:
    """A line without figures, times, addresses, names of files and bars."""
    line = re.sub(r"\S*\d[\w.:,▲-]*", "_", line)
    return " ".join(re.sub(r"[▁-█]", "", line).split())


def shows(output: str, line: str) -> bool:
    """Whether an output has a line like this one, where three dots are for anything."""
    wanted = ".*".join(map(re.escape, shape(line).split("...")))
    return any(re.fullmatch(wanted, shape(each)) for each in output.splitlines())
