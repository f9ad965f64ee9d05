"""Replays the cases of `tools.jsonl`: the six tools against nsqd, nsqlookupd and HTTP servers.

Cases of one tool run one after another on daemons of their own, which are empty before each; the
tools run side by side. What the recording did after so many milliseconds happens here when what it
waited for has happened: the tool has subscribed, the messages have been delivered.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd

from .connection import Miss
from .report import Report
from .samples import Case, load, matches
from .tool_peers import lookup_answer, run_fake_nsqd, run_sinks, statuses_of
from .tool_process import OURS, PROGRAMS, ToolProcess

WAIT_S = 10.0
STILL_S = 5.0
"""How long a tool is watched that is said to be still running."""
POLL_S = 0.01
LANES = 3
USAGE = "...(the flag list)..."

_LIFE_CYCLE = re.compile(
    r"readLoop exiting|writeLoop exiting|breaking out of writeLoop|beginning close|"
    r"clean close complete|finished draining|connections left alive|stopping handlers|"
    r"rdyLoop exiting|exiting router|exiting lookupdLoop|stopping|received CLOSE_WAIT|"
    r"delaying close|IO error|sending command|re-connecting|protocol error|"
    r"backoff timeout expired|exiting backoff"
)
"""Lines about goroutines and the end of connections, whose order and number vary in Go as well."""
_OURS = re.compile("the server offers no TLS|is none of round-robin")
"""Warnings that only ours log: the option asked for TLS, or for a mode, that is not to be had."""
_CLIENT_LINE = re.compile(r"\d{6,}|INF|WRN|ERR")


class Scene:
    """Daemons and peers for the cases of one tool."""

    def __init__(self, stack: ExitStack, nodes: int) -> None:
        self.lookupd = stack.enter_context(run_nsqlookupd())
        told = f"--lookupd-tcp-address={self.lookupd.tcp}"
        self.nsqds = [stack.enter_context(run_nsqd(told)) for _ in range(nodes)]
        self.sinks, addresses, self.requests = stack.enter_context(
            run_sinks("sink", "sink2", "redir", "fake_lookupd")
        )
        self.fake, fake_address = stack.enter_context(run_fake_nsqd())
        host = socket.gethostname()
        first, second = self.nsqds[0], self.nsqds[-1]
        self.values = {
            "tcp": first.tcp,
            "http": first.http,
            "tcp2": second.tcp,
            "http2": second.http,
            "lookupd_tcp": self.lookupd.tcp,
            "lookupd_http": self.lookupd.http,
            "fake": fake_address,
            "host": host,
            "short_host": host.partition(".")[0],
            "path": PROGRAMS or OURS,
            "dead": _nowhere(),
            "free": "127.0.0.1:0",
            **addresses,
        }

    def empty(self) -> None:
        """Forget all topics and requests."""
        for nsqd in self.nsqds:
            for topic in _stats(nsqd):
                _post(nsqd, f"/topic/delete?topic={urllib.parse.quote(topic)}")
                _post(self.lookupd, f"/topic/delete?topic={urllib.parse.quote(topic)}")
        for sink in self.sinks.values():
            sink.reset()
        self.requests.clear()


class Run:
    """One case being played."""

    def __init__(self, case: Case, scene: Scene, folder: Path) -> None:
        self.case = case
        self.name: str = case["name"]
        self.setup: str = case["setup"]
        self.expect: dict[str, Any] = case["expect"]
        self.scene = scene
        self.dir = folder / "out"
        self.dir.mkdir()
        self._folder = folder
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
        for pattern in ("%Y-%m-%d_%H", "%Y"):
            text = text.replace("{" + pattern + "}", time.strftime(pattern))
        return text

    def play(self) -> None:
        """Raises Miss when something else happens than recorded."""
        before(self)
        stdin = self.case["request"].get("stdin", "")
        if found := re.fullmatch(r"\((\d+) x, newline\)", stdin):
            stdin = "x" * int(found[1]) + "\n"
        self.process = ToolProcess(
            _quoted(self.command), self._folder, stdin.encode(), stdin_stays=bool(self.stop)
        )
        try:
            during(self)
            self._end()
            self._compare()
        finally:
            self.process.end()

    def _end(self) -> None:
        expected = self.expect["exit"]
        if isinstance(expected, str):  # still running
            self.until(lambda: not self.unlike() and self._has_said_all(), STILL_S)
            time.sleep(0.1)
            self.check("exit code", None, self.process.code())
            self.process.signal(signal.SIGKILL)
            self.process.wait(WAIT_S)
            return
        if self.stop:
            self.until(self.process.handles_term)
            self.process.signal(signal.Signals[self.stop[1]])
        code = self.process.wait(WAIT_S)
        self.check("exit code", -1 if expected == -1 else expected, code)

    def _has_said_all(self) -> bool:
        """Whether the scripted nsqd has heard what it is to hear."""
        expected = self.expect.get("bytes_received_by_the_fake_nsqd", [["rest", ""]])[-1][1]
        return len(b"".join(self.scene.fake.rest)) >= len(expected)

    def _compare(self) -> None:
        self.check("stdout", self.fill(self.expect["stdout"]), self.process.stdout, matching=True)
        if self.expect["stderr"] != "(client log)":
            self.check("stderr", *self.unlike() or (None, None))
        if "files" in self.expect:
            compare_files(self)
        if "http_requests" in self.expect:
            compare_requests(self)
        if "published" in self.expect:
            compare_published(self)
        if "bytes_received_by_the_fake_nsqd" in self.expect:
            compare_bytes(self)
        if wanted := self.expect.get("lookupd_request_path"):
            self.check("lookupd path", wanted, [each["path"] for each in self.scene.requests])
        for path, headers in self.expect.get("lookupd_request", ()):
            compare_lookup(self, path, headers)

    def unlike(self) -> tuple[object, object] | None:
        """What of stderr is not as recorded; None when all is."""
        expected, actual = self.expect["stderr"], self.process.stderr
        if "rotation by name" in self.name:
            expected = re.sub(r"tf\.\d\d\b", "tf.<int>", expected)
        elif "with ticks" in self.name:  # how many there are is a matter of time
            expected = re.sub(r"tf-\d{6}", "tf-<int>", expected)
        for name in self.expect.get("files", ()):
            expected = expected.replace(f"/{name}", f"/{_dated(self, name)}")
        expected = self.fill(expected)
        if USAGE in expected:
            expected = expected.partition(USAGE)[0]
            return None if actual.startswith(expected) else (expected, actual)
        connecting = "connecting to nsqd" in expected
        wanted = [line for line in map(_plain, expected.splitlines()) if _counts(line, True)]
        found = [line for line in actual.splitlines() if _counts(line, connecting)]
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

    def until(self, happened: Callable[[], bool], seconds: float = WAIT_S) -> bool:
        """Wait for it; False when it did not happen in time, or the tool ended before."""
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline or self.process.code() is not None:
                return happened()
            time.sleep(POLL_S)
        return True

    def subscribed(self) -> None:
        """Wait until the tool consumes its topics on the first nsqd."""
        self.until(lambda: all(_clients(self.scene.nsqds[0], topic) for topic in self.topics))

    def publish(self, topic: str, bodies: Iterable[str], nsqd: int = 0) -> None:
        """Publish them one by one, so that they keep their order."""
        for body in bodies:
            _post(self.scene.nsqds[nsqd], f"/pub?topic={topic}", body.encode())

    def delivered(self) -> None:
        """Wait until nothing waits in the channels of the first nsqd.

        nsq_to_file keeps messages in flight until it syncs; the others are to answer them.
        """
        kept = self.tool == "nsq_to_file"
        first = self.scene.nsqds[0]
        self.until(lambda: not any(_waiting(first, topic, kept) for topic in self.topics))


def before(run: Run) -> None:
    """What is there before the tool starts."""
    if found := re.search(r'\{dir\}/(\S+) exists with (?:the plain text )?"(\w+)\\n"', run.setup):
        path = run.dir / found[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(found[2] + "\n")
        path.chmod(0o644)
    elif "{dir}/d is a directory" in run.setup:
        (run.dir / "d").mkdir()
    elif "{dir}/f is a plain file" in run.setup:
        (run.dir / "f").write_text("plain file\n")
        (run.dir / "f").chmod(0o644)
    sinks = run.scene.sinks
    statuses = statuses_of(run.name, run.setup)
    sinks["redir" if "redirected" in run.name else "sink"].statuses = statuses
    sinks["sink"].delay_s = 1.0 if run.name == "nsq_to_http request timeout" else 0.0
    if found := re.search(r"answers IDENTIFY with (.+) and SUB", run.setup):
        run.scene.fake.reset(found[1])
    if "{fake_lookupd}" in run.case["request"]["command"]:
        _prepare_lookup(run)
    if run.tool == "nsq_stat" and "unknown topic" not in run.name:
        _prepare_stat(run)
    if run.tool == "nsq_tail":
        _prepare_tail(run)
    if "--topic-pattern" in run.command and "--topic=" not in run.command:
        for topic in ("tfn", "tg"):
            _post(run.scene.nsqds[0], f"/topic/create?topic={topic}")
            _until_known(run, topic)
        run.publish("tf", ["one", "two"])
        _until_known(run, "tf")
    if run.name.startswith("nsq_to_nsq order"):
        _post(run.scene.nsqds[0], f"/topic/create?topic={run.topics[0]}")
        _post(run.scene.nsqds[0], f"/channel/create?topic={run.topics[0]}&channel=c")
        run.publish(run.topics[0], (f"m{number}" for number in range(6)))


def _prepare_lookup(run: Run) -> None:
    wrapped = "wrapped" in run.name
    headers = {} if wrapped else {"X-NSQ-Content-Type": "nsq; version=1.0"}
    body = lookup_answer(run.values["tcp"], wrapped=wrapped)
    run.scene.sinks["fake_lookupd"].reset(200, body, **headers)
    run.publish("lk", ["z"])


def _prepare_stat(run: Run) -> None:
    first, second = run.scene.nsqds[0], run.scene.nsqds[-1]
    both = "lookupd" in run.command and "one dead" not in run.name
    for nsqd in (first, second) if both else (first,):
        _post(nsqd, "/topic/create?topic=st")
        _post(nsqd, "/channel/create?topic=st&channel=c")
    earlier = {"nsq_stat ingress": 3, "nsq_stat egress": 13}.get(run.name)
    if earlier is None:
        earlier = 16 if "header every 25" in run.name else 13 if "truncated" in run.name else 3
    run.publish("st", ["x"] * earlier)
    if earlier > 3 and run.name != "nsq_stat egress":
        _consume(first, "st", earlier - (0 if "truncated" in run.name else 3))


def _prepare_tail(run: Run) -> None:
    if run.name == "nsq_tail print-topic":
        for path in ("/topic/create?topic=tl", "/channel/create?topic=tl&channel=ch2"):
            _post(run.scene.nsqds[0], path)
        return
    bodies = {
        "nsq_tail n=2": ["one", "two", "three"],
        "nsq_tail print-topic (2)": ["a"],
        "nsq_tail print-topic=false": ["b"],
        "nsq_tail body with newline": ["with\nnewline"],
        "nsq_tail default channel": ["x"],
        "nsq_tail lookupd": ["via-lookupd"],
    }.get(run.name)
    if bodies:
        run.publish(run.topics[0], bodies)
    if run.name == "nsq_tail two topics":
        run.publish("ma", ["A"])
        run.publish("mb", ["B"])
    if "lookupd" in run.command and bodies:
        _until_known(run, run.topics[0])


def _until_known(run: Run, topic: str) -> None:
    url = f"http://{run.scene.lookupd.http}/lookup?topic={topic}"
    for _ in range(500):
        try:
            if json.loads(urllib.request.urlopen(url, timeout=5).read())["producers"]:
                return
        except urllib.error.HTTPError:
            pass
        time.sleep(POLL_S)
    raise AssertionError(f"nsqlookupd never heard of {topic}")


def during(run: Run) -> None:
    """What happens while the tool runs, until it is to end."""
    acts = {"nsq_to_file": _act_file, "nsq_to_http": _act_http, "nsq_to_nsq": _act_nsq}
    if run.tool in acts and run.stop:
        acts[run.tool](run)
    elif run.tool == "nsq_to_file" and "files" in run.expect:
        _act_file(run)
    elif run.tool == "nsq_stat" and "count" in run.command:
        _act_stat(run)
    elif run.stop:
        if run.tool == "nsq_tail":
            run.subscribed()
            run.until(lambda: len(run.process.stdout) >= len(run.expect["stdout"]))
        elif run.tool == "nsq_stat":
            run.until(lambda: "ingress" in run.process.stdout)
        elif run.case["request"].get("stdin"):
            run.until(lambda: bool(_stats(run.scene.nsqds[0])))


def _act_stat(run: Run) -> None:
    """The recorded ingress or egress comes between the two first looks."""
    if run.name not in ("nsq_stat ingress", "nsq_stat egress", "nsq_stat rate is truncated"):
        return
    run.until(lambda: "ingress" in run.process.stdout)
    if run.name == "nsq_stat ingress":
        run.publish("st", ["x"] * 10)
    elif run.name == "nsq_stat egress":
        _consume(run.scene.nsqds[0], "st", 10, finish=5)
    else:
        run.publish("st", ["x"] * 3)


def _act_file(run: Run) -> None:
    if "topic-pattern" in run.command and "--topic=" not in run.command:
        _act_file_by_pattern(run)
        return
    if "{dead}" not in run.case["request"]["command"]:
        run.until(lambda: "couldn't create" in run.process.stderr or bool(_live(run)))
    if "no messages" in run.name or not run.topics:
        time.sleep(0.5)
        return
    parts = _file_messages(run)
    expected_openings = run.expect["stderr"].count(" opening ")
    for index, (topic, bodies, pause) in enumerate(parts):
        run.publish(topic, bodies)
        run.delivered()
        opened = min(index + 1, expected_openings)
        run.until(lambda so_many=opened: _openings(run) >= so_many)
        if index < len(parts) - 1:
            if "SIGHUP" in run.setup:
                run.process.signal(signal.SIGHUP)
            time.sleep(pause)
    if "is created with" in run.setup:
        target = run.dir / "done" / "a-000000.log"
        target.parent.mkdir(exist_ok=True)
        target.write_text("intruder\n")
        target.chmod(0o644)
    run.until(lambda: _openings(run) >= expected_openings)
    time.sleep(0.3 if re.search("ticks|sync|level error", run.name) else 0.05)


def _openings(run: Run) -> int:
    return run.process.stderr.count(" opening ")


def _live(run: Run) -> bool:
    return all(_clients(run.scene.nsqds[0], topic) for topic in run.topics)


def _file_messages(run: Run) -> list[tuple[str, list[str], float]]:
    """What is published: topic, bodies, and how long until the next."""
    if run.name == "nsq_to_file two topics":
        return [("tf", ["one", "two"], 0.0), ("tg", ["G"], 0.0)]
    if found := re.match(r"messages? (\w+)(?:, (\w+))?, .*?([\d.]+) s later (?:message )?(\w+)",
                         run.setup):  # fmt: skip
        first = [body for body in (found[1], found[2]) if body and body != "then"]
        return [("tf", first, float(found[3])), ("tf", [found[4]], 0.0)]
    if "body with newline" in run.name:
        return [("tf", ["x\ny"], 0.0)]
    bodies = []
    for _, file in sorted(run.expect["files"].items()):
        content = re.sub(r"^gzip, \d members: ", "", file["content"])
        bodies += re.sub(r"^(old|oldold|intruder|plain file)\n", "", content).splitlines()
    return [(run.topics[0], bodies or ["one", "two"], 0.0)]


def _act_file_by_pattern(run: Run) -> None:
    run.topics = ["tf"]
    if run.expect["files"]:
        run.until(lambda: bool(_live(run)))
        run.delivered()
        run.until(lambda: " opening " in run.process.stderr)
    else:
        run.until(lambda: not run.unlike())
    time.sleep(0.1)


def _act_http(run: Run) -> None:
    run.subscribed()
    bodies = [_http_body(each) for each in run.expect.get("http_requests", ())]
    bodies = [body for body in dict.fromkeys(bodies) if body is not None]
    if run.name == "nsq_to_http hostpool, first fails":
        bodies = ["m0"]
    run.publish(run.topics[0], bodies or ["m"])
    wanted = run.expect.get("http_request_count", 0)
    if wanted:
        run.until(lambda: len(run.scene.requests) >= wanted)
    run.delivered()
    if run.expect["stderr"]:
        run.until(lambda: not run.unlike())
    time.sleep(0.05)


def _http_body(request: dict[str, Any]) -> str | None:
    if "/redirected" in request["path"]:
        return None
    if request["method"] == "POST":
        return str(request["body"])
    return urllib.parse.unquote_plus(re.split(r"[?=]", request["path"], maxsplit=2)[-1])


def _act_nsq(run: Run) -> None:
    if run.name.startswith("nsq_to_nsq order"):
        run.until(lambda: _published_count(run) >= 6)
        return
    run.subscribed()
    found = re.search(r"while it runs: (\[.*\])", run.setup)
    run.publish(run.topics[0], json.loads(found[1]) if found else ())
    run.delivered()
    run.until(lambda: not run.unlike())
    time.sleep(0.1)


def _published_count(run: Run) -> int:
    return sum(len(_bodies(run, topic, number)) for topic, number in _destinations(run))


def _destinations(run: Run) -> list[tuple[str, int]]:
    topic = re.search(r"--destination-topic=(\S+)", run.command)
    name = topic[1] if topic else run.topics[0]
    return [(name, 0), (name, 1)]


def _bodies(run: Run, topic: str, number: int) -> list[str]:
    """The bodies that a topic without a channel holds, by its figures only."""
    found = _stats(run.scene.nsqds[number]).get(topic)
    return ["?"] * found["message_count"] if found else []


def compare_files(run: Run) -> None:
    """The files of the output directory: names, modes, contents."""
    actual = {
        path.relative_to(run.dir).as_posix(): (oct(path.stat().st_mode & 0o777), _content(path))
        for path in sorted(run.dir.rglob("*"))
        if path.is_file()
    }
    expected = {
        run.fill(_dated(run, name)): (file["mode"], file["content"])
        for name, file in run.expect["files"].items()
    }
    if "rotation by name" in run.name or "ticks" in run.name:  # names, or empty files, vary
        run.check("contents", [each for each in expected.values() if each[1]],
                  [each for each in actual.values() if each[1]])  # fmt: skip
    else:
        run.check("files", expected, actual)


def _dated(run: Run, name: str) -> str:
    """The recorded name with the time of this run, of the last minute, in place of its own."""
    found = re.search(r"--datetime-format=(\S+)", run.case["request"]["command"])
    if found is None or "%" not in found[1]:
        return name
    if not name.startswith("f."):
        return name
    names = [_formatted(found[1], time.time() - ago) for ago in range(60)]
    return next((name for name in names if (run.dir / name).exists()), names[0])


def _formatted(pattern: str, when: float) -> str:
    then = time.localtime(when)
    known = re.sub(r"%([BbmAadHIMSYypZz])", lambda token: time.strftime(token[0], then), pattern)
    return "f." + known.replace("%%", "%")


def _content(path: Path) -> str:
    data = path.read_bytes()
    if not data.startswith(b"\x1f\x8b"):
        return data.decode()
    members = data.count(b"\x1f\x8b\x08")
    plural = "member" if members == 1 else "members"
    return f"gzip, {members} {plural}: {gzip.decompress(data).decode()}"


def compare_requests(run: Run) -> None:
    """What the HTTP servers were asked, in any order where several publishers ask."""
    wanted = [_request(run.fill(json.dumps(each))) for each in run.expect["http_requests"]]
    found = [_request(json.dumps(each)) for each in run.scene.requests]
    names = {value: "{" + key + "}" for key, value in run.scene.values.items()}
    for each in wanted:
        each["to"] = names.get(each["to"], each["to"])
    if "epsilon-greedy" in run.name:  # chosen at random
        wanted = [{"body": each["body"]} for each in wanted]
        found = [{"body": each["body"]} for each in found]
    if "--n=1" not in run.command:
        wanted.sort(key=str)
        found.sort(key=str)
    run.check("requests", wanted, found)


def _request(text: str) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(text)
    request["headers"].pop("accept-encoding", None)
    request["headers"].pop("connection", None)
    request["headers"].pop("accept", None)
    return request


def compare_published(run: Run) -> None:
    """The messages of the destination topics, read from a new channel."""
    expected = run.expect["published"]
    if isinstance(expected, list):
        expected = {"destination 1": expected}
    for where, bodies in expected.items():
        number = 1 if where in ("destination 2", "second nsqd") else 0
        topic = where if where.startswith("tn") else (
            _destinations(run)[0][0] if run.tool == "nsq_to_nsq" else run.topics[0]
        )  # fmt: skip
        if run.tool == "nsq_to_nsq" and where == "destination 1" and "no destination" in run.name:
            continue  # the source topic itself
        found = _consume(run.scene.nsqds[number], topic, len(bodies) + 1)
        run.check(f"published to {where}", sorted(bodies), sorted(found))


def compare_bytes(run: Run) -> None:
    """What the scripted nsqd received: IDENTIFY's values, and the commands."""
    for kind, text in run.expect["bytes_received_by_the_fake_nsqd"]:
        if kind == "rest":
            rest = b"".join(run.scene.fake.rest).decode("latin-1")
            run.check("commands", text, rest)
            continue
        wanted = json.loads(run.fill(text[text.index("{") :]))
        found = json.loads(run.scene.fake.identify[0])
        wanted.pop("user_agent")
        run.check("user agent", True, found.pop("user_agent").startswith(f"{run.tool}/1.3.0 "))
        run.check("IDENTIFY", wanted, {name: found.get(name) for name in wanted})


def compare_lookup(run: Run, path: str, headers: dict[str, str]) -> None:
    """What nsqlookupd was asked."""
    asked = run.scene.requests[0]
    run.check("lookupd path", path, asked["path"])
    for name in ("accept", "authorization"):
        run.check(f"header {name}", headers.get(name), asked["headers"].get(name))


def _consume(nsqd: Daemon, topic: str, count: int, finish: int | None = None) -> list[str]:
    """Receive up to so many messages from the channel c and finish them, or the first few."""
    have = _stats(nsqd).get(topic)
    total = min(count, have["message_count"] if have else 0)
    if not total:
        return []
    reader, bodies = FrameReader(), []
    host, _, port = nsqd.tcp.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(encode.MAGIC_V2 + encode.subscribe(topic, "c") + encode.ready(total))
        while len(bodies) < total:
            reader.receive_data(connection.recv(65536))
            bodies += [raw for frame in reader.events() if isinstance(frame, MessageBlock)
                       for raw in frame]  # fmt: skip
        # RDY 0 first: nothing more is to come, and what is not finished stays in flight.
        done = [encode.finish(raw.id) for raw in bodies[:finish]]
        connection.sendall(encode.ready(0) + b"".join(done) + encode.NOP)
        for _ in range(500):
            channels = _stats(nsqd)[topic]["channels"]
            if sum(channel["in_flight_count"] for channel in channels) == total - len(done):
                break
            time.sleep(POLL_S)
    return [raw.body.decode() for raw in bodies]


def _stats(nsqd: Daemon) -> dict[str, Any]:
    url = f"http://{nsqd.http}/stats?format=json&include_mem=false"
    topics = json.loads(urllib.request.urlopen(url, timeout=10).read())["topics"] or []
    return {topic["topic_name"]: topic for topic in topics}


def _clients(nsqd: Daemon, topic: str) -> int:
    found = _stats(nsqd).get(topic)
    return sum(channel["client_count"] for channel in found["channels"]) if found else 0


def _waiting(nsqd: Daemon, topic: str, kept: bool) -> int:
    found = _stats(nsqd).get(topic)
    if not found:
        return 0
    waiting = [found["depth"], *(channel["depth"] for channel in found["channels"])]
    if not kept:
        waiting += [channel["in_flight_count"] for channel in found["channels"]]
    return sum(waiting)


def _post(daemon: Daemon, path: str, body: bytes = b"") -> None:
    request = urllib.request.Request(f"http://{daemon.http}{path}", body, method="POST")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        error.close()


def _nowhere() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _quoted(command: str) -> str:
    """A recorded command line for `shlex`: only two flags have values with spaces."""
    words: list[str] = []
    for word in command.split(" "):
        if words and words[-1].startswith(("--header=", "--log-prefix=")) and word[:1] != "-":
            words[-1] += f" {word}"
        elif word:
            words.append(word)
    return shlex.join(words)


def _plain(line: str) -> str:
    return re.sub(r"syncing \d+ records", "syncing <int> records",
                  line.replace("{ms}ms", "<number>ms"))  # fmt: skip


def _counts(line: str, connecting: bool) -> bool:
    """Whether a line of stderr is to be the same."""
    if " connecting to nsqd" in line:
        return connecting
    return not (_OURS.search(line) or (_CLIENT_LINE.search(line) and _LIFE_CYCLE.search(line)))


def replay_tools(path: Path, tools: Iterable[str]) -> Report:
    """Play all cases of these tools, on a few sets of daemons at the same time."""
    report = Report(path.name)
    chosen = set(tools)
    cases = [case for case in load(path) if tool_of(case) in chosen]
    lanes = [lane for number in range(LANES) if (lane := cases[number::LANES])]
    with ThreadPoolExecutor(LANES) as pool:
        for outcomes in pool.map(_play_lane, lanes):
            for name, miss in outcomes:
                if miss is None:
                    report.held.append(name)
                else:
                    report.miss(name, miss)
    return report


def tool_of(case: Case) -> str:
    """The tool that a case runs."""
    return str(case["request"]["command"].split()[0])


def _play_lane(cases: list[Case]) -> list[tuple[str, BaseException | None]]:
    with ExitStack() as stack:
        two = any("{tcp2}" in str(case) or "both nsqds" in case["setup"] for case in cases)
        scene = Scene(stack, 2 if two else 1)
        return [(case["name"], _play(case, scene)) for case in cases]


def _play(case: Case, scene: Scene) -> BaseException | None:
    with _folder() as folder:
        try:
            scene.empty()
            Run(case, scene, folder).play()
        except Exception as error:
            return error
    return None


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-tools-", ignore_cleanup_errors=True) as path:
        yield Path(path)
