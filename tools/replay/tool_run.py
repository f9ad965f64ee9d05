"""One recorded run being played: its command, its process, what it said so far."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.harness.samples import Case, matches

from .admin_scenes import eventually
from .connection import Miss
from .tool_process import ToolProcess
from .tool_scene import POLL_S, WAIT_S, Scene

USAGE = "...(the flag list)..."

_LIFE_CYCLE = re.compile(
    r"readLoop exiting|writeLoop exiting|breaking out of writeLoop|beginning close|"
    r"clean close complete|finished draining|connections left alive|stopping handlers|"
    r"rdyLoop exiting|exiting router|exiting lookupdLoop|stopping|received CLOSE_WAIT|"
    r"delaying close|IO error|sending command|re-connecting|protocol error|"
    r"backoff timeout expired|exiting backoff"
)
"""Lines about goroutines and the end of connections, whose order and number vary in Go as well."""
_OURS = re.compile("the server offers no TLS|is not one of round-robin")
"""Warnings that only ours log: the option asked for TLS, or for a mode, that is not to be had."""
HOURLY = "%Y-%m-%d_%H"
ONE_BY_ONE = ("nsq_to_http", "nsq_to_nsq")
"""Tools whose lines come as often as recorded."""
_CLIENT_LINE = re.compile(r"\d{6,}|INF|WRN|ERR")


class Run:
    """One case being played."""

    def __init__(self, case: Case, scene: Scene, folder: Path, patience_s: float = WAIT_S) -> None:
        self.case = case
        self.name: str = case["name"]
        self.setup: str = case["setup"]
        self.expect: dict[str, Any] = case["expect"]
        self.scene = scene
        self.dir = folder / "out"
        self.dir.mkdir()
        self.patience_s = patience_s
        self._folder = folder
        self._begun = time.localtime()
        self.values = {**scene.values, "dir": str(self.dir)}
        self.command = self.fill(case["request"]["command"])
        self.tool = self.command.split()[0]
        self.topics = re.findall(r"--topic=(\S+)", self.command)
        self.stop = re.search(r"send (\w+)", " ".join(case["request"].get("then", ())))
        self.process: ToolProcess

    def fill(self, text: str) -> str:
        """The text with the addresses and names of this run."""
        for name, value in self.values.items():
            text = text.replace("{" + name + "}", value)
        for pattern in (HOURLY, "%Y"):
            text = text.replace("{" + pattern + "}", time.strftime(pattern, self._hour()))
        return text

    def _hour(self) -> time.struct_time:
        """The hour in the names of files, read anew: one may have ended since the case began."""
        now = time.localtime()
        name = time.strftime(HOURLY, now)
        return now if any(name in path.name for path in self.dir.rglob("*")) else self._begun

    def start(self) -> None:
        """Start the tool."""
        stdin = self.case["request"].get("stdin", "")
        if found := re.fullmatch(r"\((\d+) x, newline\)", stdin):
            stdin = "x" * int(found[1]) + "\n"
        self.process = ToolProcess(
            _quoted(self.command), self._folder, stdin.encode(), stdin_stays=bool(self.stop)
        )

    def end(self) -> None:
        """Let it end as the recorded one did, or find it still running. Raises Miss."""
        expected = self.expect["exit"]
        if isinstance(expected, str):  # still running
            self.until(lambda: not self.unlike() and self._has_said_all())
            self.check("exit code", None, self.process.code())
            if "{fake}" in self.case["request"]["command"]:
                return  # which is never told that the tool goes
        if isinstance(expected, str) or self.stop:
            self.until(self.process.handles_term)
            self.process.signal(signal.Signals[self.stop[1]] if self.stop else signal.SIGTERM)
        code = self.process.wait(self.patience_s)
        self.check("exit code", 0 if isinstance(expected, str) else expected, code)

    def _has_said_all(self) -> bool:
        """Whether the scripted nsqd has heard what it is to hear."""
        expected = self.expect.get("bytes_received_by_the_fake_nsqd", [["rest", ""]])[-1][1]
        return len(b"".join(self.scene.fake.rest)) >= len(expected)

    def unlike(self) -> tuple[object, object] | None:
        """What of stderr is not as recorded; None when all is."""
        expected, actual = self.expect["stderr"], self.process.stderr
        if "rotation by name" in self.name:
            expected = re.sub(r"tf\.\d\d\b", "tf.<int>", expected)
        elif "with ticks" in self.name:  # how many there are is a matter of time
            expected = re.sub(r"tf-\d{6}", "tf-<int>", expected)
        for name in self.expect.get("files", ()):
            expected = expected.replace(f"/{name}", f"/{self.dated(name)}")
        expected = self.fill(expected)
        if USAGE in expected:
            expected = expected.partition(USAGE)[0]
            return None if actual.startswith(expected) else (expected, actual)
        connecting = "connecting to nsqd" in expected
        wanted = [line for line in map(_plain, expected.splitlines()) if _counts(line, True)]
        found = [line for line in actual.splitlines() if _counts(line, connecting)]
        if self.tool in ONE_BY_ONE:
            return _unpaired(wanted, found)
        missing = [want for want in wanted if not any(matches(want, line) for line in found)]
        extra = [line for line in found if not any(matches(want, line) for want in wanted)]
        return (missing, extra) if missing or extra else None

    def check(
        self, where: str, expected: object, actual: object, *, matching: bool = False
    ) -> None:
        """Raise Miss unless the two are the same."""
        same = matches(str(expected), str(actual)) if matching else expected == actual
        if not same:
            raise Miss(f"{where}: {self.command}", expected, f"{actual}\n{self.process.stderr}")

    def until(self, happened: Callable[[], bool]) -> bool:
        """Wait for it; False when it did not happen in time, or the tool ended before."""
        deadline = time.monotonic() + self.patience_s
        while not happened():
            if time.monotonic() > deadline or self.process.code() is not None:
                return happened()
            time.sleep(POLL_S)
        return True

    def idle(self) -> None:
        """Wait until the tool waits for something, having done with all that reached it."""
        self.until(lambda: self.process.states() == {"S"})

    @contextmanager
    def halted(self) -> Iterator[None]:
        """The tool stands still, from where it waits for something."""
        self.idle()
        self.process.signal(signal.SIGSTOP)
        self.until(lambda: self.process.states() == {"T"})
        yield
        self.process.signal(signal.SIGCONT)

    def subscribed(self) -> None:
        """Wait until the tool consumes its topics on the first nsqd."""
        self.until(self.is_live)

    def is_live(self) -> bool:
        """Whether the tool consumes its topics on the first nsqd."""
        return all(map(self._is_consumed, self.topics))

    def _is_consumed(self, topic: str) -> bool:
        return any(each["client_count"] for each in self.scene.nsqds[0].channels(topic))

    def publish(self, topic: str, bodies: Iterable[str], nsqd: int = 0) -> None:
        """Publish them one by one, so that they keep their order."""
        for body in bodies:
            self.scene.nsqds[nsqd].post(f"/pub?topic={topic}", body.encode())

    def publish_at_once(self, topic: str, lines: Iterable[str]) -> None:
        """Publish them together: no sync of the tool comes between them."""
        self.scene.nsqds[0].post(f"/mpub?topic={topic}", "\n".join(lines).encode())

    def until_known(self, topic: str) -> None:
        """Wait until nsqlookupd has heard of the topic."""
        eventually(f"nsqlookupd knows {topic}", lambda: bool(self.scene.lookupd.producers(topic)))

    def delivered(self) -> None:
        """Wait until nothing waits in the channels of the first nsqd.

        nsq_to_file keeps messages in flight until it syncs, which it does soon only where it is
        told to; the others are to answer them.
        """
        answered = self.tool != "nsq_to_file" or "--sync-interval" in self.command
        waiting = self.scene.nsqds[0].waiting
        self.until(lambda: not any(waiting(each, in_flight=answered) for each in self.topics))

    @property
    def to_be_left(self) -> list[int] | None:
        """What the recorded run left in its channel: how many waiting, in flight, deferred."""
        noted = re.search(r"\[\('c', (\d+), (\d+), (\d+),", self.case.get("note", ""))
        return [int(each) for each in noted.groups()] if noted else None

    def settled(self) -> None:
        """Wait until its channel has had every message, and has left what is to be left."""
        if self.to_be_left is None:
            self.delivered()
        else:
            self.until(lambda: self._has_had_all() and self.left() == self.to_be_left)

    def _has_had_all(self) -> bool:
        topic = self.scene.nsqds[0].topics(self.topics[0])[self.topics[0]]
        return all(each["message_count"] == topic["message_count"] for each in topic["channels"])

    def left(self) -> list[int] | None:
        """The same of this run; None of one whose record does not tell."""
        if self.to_be_left is None:
            return None
        channels = self.scene.nsqds[0].channels(self.topics[0])
        names = ("depth", "in_flight_count", "deferred_count")
        return [int(each[name]) for each in channels for name in names]

    def dated(self, name: str) -> str:
        """The recorded name with the time of this run, of the last minute, in place of its own."""
        found = re.search(r"--datetime-format=(\S+)", self.case["request"]["command"])
        if found is None or "%" not in found[1] or not name.startswith("f."):
            return name
        names = [_formatted(found[1], time.time() - ago) for ago in range(60)]
        return next((name for name in names if (self.dir / name).exists()), names[0])

    def destination(self) -> str:
        """The topic that nsq_to_nsq publishes to."""
        topic = re.search(r"--destination-topic=(\S+)", self.command)
        return topic[1] if topic else str(self.topics[0])


def _formatted(pattern: str, when: float) -> str:
    then = time.localtime(when)
    known = re.sub(r"%([BbmAadHIMSYypZz])", lambda token: time.strftime(token[0], then), pattern)
    return "f." + known.replace("%%", "%")


def _quoted(command: str) -> str:
    """A recorded command line for `shlex`: only two flags have values with spaces."""
    words: list[str] = []
    for word in command.split(" "):
        if words and words[-1].startswith(("--header=", "--log-prefix=")) and word[:1] != "-":
            words[-1] += f" {word}"
        elif word:
            words.append(word)
    return shlex.join(words)


def _unpaired(wanted: list[str], found: list[str]) -> tuple[object, object] | None:
    """What is left when every line is matched with one: handlers log in any order."""
    extra, missing = list(found), []
    for want in wanted:
        pair = next((line for line in extra if matches(want, line)), None)
        if pair is None:
            missing.append(want)
        else:
            extra.remove(pair)
    return (missing, extra) if missing or extra else None


def _plain(line: str) -> str:
    return re.sub(r"syncing \d+ records", "syncing <int> records",
                  line.replace("{ms}ms", "<number>ms"))  # fmt: skip


def _counts(line: str, connecting: bool) -> bool:
    """Whether a line of stderr is to be the same."""
    if " connecting to nsqd" in line:
        return connecting
    return not (_OURS.search(line) or (_CLIENT_LINE.search(line) and _LIFE_CYCLE.search(line)))
