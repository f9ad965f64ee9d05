"""The recorded runs of nsq_to_http and nsq_to_nsq, run again (reference 6.5, 6.6).

What is deliberately different: an unknown --mode brings a warning.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from penstock.testing.daemons import Daemon, run_nsqd, run_nsqlookupd
from tests.forwarding import (
    PATH,
    Request,
    Sink,
    Tool,
    bodies_in,
    channel,
    create,
    publish,
    wait_until,
)

from .samples import Case, load, matches

CASES = [
    case
    for case in load(Path(__file__).parent / "samples" / "tools.jsonl")
    if case["request"]["command"].startswith(("nsq_to_http", "nsq_to_nsq"))
]
RUNS = [case for case in CASES if "then" in case["request"] and "sample" not in case]
ENDS = [case for case in CASES if isinstance(case["expect"]["exit"], int) and case not in RUNS]
STAYS = [case for case in CASES if case not in RUNS and case not in ENDS]
HTTP_RUNS = [case for case in RUNS if case["name"].startswith("nsq_to_http")]
NSQ_RUNS = [case for case in RUNS if case["name"].startswith("nsq_to_nsq")]

WARNING = "--mode="


def name(case: Case) -> str:
    return str(case["name"])


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def second() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def lookupd() -> Iterator[Daemon]:
    with run_nsqlookupd() as daemon:
        yield daemon


@pytest.fixture
def places(nsqd: Daemon, second: Daemon, lookupd: Daemon) -> Iterator[dict[str, str]]:
    """What the placeholders stand for."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        yield {
            "tcp": nsqd.tcp,
            "tcp2": second.tcp,
            "lookupd_http": lookupd.http,
            "dead": f"127.0.0.1:{unused.getsockname()[1]}",
            "path": PATH,
            "sink": "127.0.0.1:1",
        }


def test_every_recorded_run_is_here() -> None:
    assert len(CASES) == len(RUNS) + len(ENDS) + len(STAYS) == 106


@pytest.mark.parametrize("case", ENDS, ids=name)
def test_it_ends(case: Case, places: dict[str, str], tmp_path: Path) -> None:
    tool = start(case["request"]["command"], places, tmp_path)
    try:
        assert tool.wait() == case["expect"]["exit"], tool.said()
        assert tool.output() == case["expect"]["stdout"]
        expected, complete, _ = case["expect"]["stderr"].partition("...(the flag list)...")
        said = tool.said()
        if complete:
            lines = expected.count("\n")
            said = "".join(said.splitlines(keepends=True)[:lines])
        # Ours says that it stops even when it has not begun.
        said = "".join(line for line in said.splitlines(keepends=True) if "stopping" not in line)
        assert matches(expected, said, places), said
    finally:
        tool.close()


@pytest.mark.parametrize("case", STAYS, ids=name)
def test_it_stays(case: Case, places: dict[str, str], tmp_path: Path) -> None:
    tool = start(case["request"]["command"], places, tmp_path)
    try:
        tool.wait_until_said("connecting to nsqd")
        first = tool.said().splitlines(keepends=True)[0]
        channel_of = re.search(r"\[t\w*/(\w+)]", first)
        expected = case["expect"]["stderr"]
        if channel_of:  # recorded with another channel than the command names
            expected = re.sub(r"(\[t\w*/)\w+]", rf"\1{channel_of[1]}]", expected)
        assert matches(expected, first, places), first
        assert tool.stop() == 0
    finally:
        tool.close()


def start(command: str, places: dict[str, str], home: Path) -> Tool:
    words = shlex.split(re.sub(r"(--header=)(.*?)(?= --|$)", r"\1'\2'", command))
    words = [_filled_in(word, places) for word in words]
    return Tool(home, words[0], *words[1:])


def _filled_in(text: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(f"{{{place}}}", value)
    return text


# --- nsq_to_http ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", HTTP_RUNS, ids=name)
def test_http_run(case: Case, nsqd: Daemon, places: dict[str, str], tmp_path: Path) -> None:
    number = RUNS.index(case)
    topic = f"th{number}"
    command = case["request"]["command"].replace("--topic=th", f"--topic={topic}")
    requests = case["expect"]["http_requests"]
    with ExitStack() as stack:
        sinks = {word: Sink() for word in ("sink", "sink2", "redir")}
        for word, sink in sinks.items():
            stack.callback(sink.close)
            places[word] = sink.address
        _script(case["name"], sinks)
        create(nsqd, topic, "c")
        publish(nsqd, topic, _messages(case))
        tool = start(command, places, tmp_path)
        stack.callback(tool.close)
        _wait_for_outcome(case, nsqd, topic, tool)
        assert tool.stop() == case["expect"]["exit"]
        _compare_lines(case["expect"]["stderr"].replace("[th/", f"[{topic}/"), tool, places)
        total = sum(len(sink.requests) for sink in sinks.values())
        assert total == case["expect"]["http_request_count"]
        if "epsilon-greedy" in case["name"]:  # which is a matter of chance
            everything = [body for sink in sinks.values() for body in sink.bodies()]
            assert sorted(everything) == sorted(_messages(case))
            return
        for word, sink in sinks.items():
            wanted = [_request(each, places) for each in requests if each["to"] == f"{{{word}}}"]
            # The record of the longest run is cut off.
            assert not Counter(wanted) - Counter(map(_shown, sink.requests))
        if case["request"]["command"].endswith("--max-in-flight=1"):
            _compare_order(requests, sinks)


def _script(name: str, sinks: dict[str, Sink]) -> None:
    """What the endpoints answer is in the name of the run."""
    status = re.search(r"\b([2-5][0-9]{2})\b", name)
    if status and "redirected" in name:
        sinks["redir"].answer = lambda request: int(status[1])
    elif status:
        sinks["sink"].answer = lambda request: int(status[1])
    elif "first fails" in name:
        sinks["sink"].answer = lambda request: 500
    elif "timeout" in name:
        sinks["sink"].answer = lambda request: Sink.HANG


def _messages(case: Case) -> list[bytes]:
    """The bodies of the requests; where there were none, as many as the channel had."""
    found: list[bytes] = []
    for request in case["expect"]["http_requests"]:
        query = re.search(r"\?(?:d=)?(.*)", request["path"])
        data = unquote_to_bytes(query[1].replace("+", " ")) if query else request["body"].encode()
        if data and data not in found:
            found.append(data)
    if "first fails" in case["name"] and "hostpool" in case["name"]:
        found.append(b"m1")
    if "status-every 2, two" in case["name"]:  # the record is cut off; the lines tell of more
        found += [b"m8", b"m9"]
    return found or [b"m", *([b"n", b"o"] if "sample 0" in case["name"] else [])]


def _wait_for_outcome(case: Case, nsqd: Daemon, topic: str, tool: Tool) -> None:
    note = re.search(r"\[\('c'.*?\)]", case.get("note", ""))
    left = ast.literal_eval(note[0])[0][1] if note else 0

    def settled() -> bool:
        now = channel(nsqd, topic, "c")
        return bool(now["depth"] == left and now["in_flight_count"] == 0)

    wait_until(settled, tool.said)
    for line in case["expect"]["stderr"].splitlines()[-1:]:
        if "backing off" in line:  # which is said after the message was given back
            tool.wait_until_said("backing off")


def _compare_lines(expected: str, tool: Tool, places: dict[str, str]) -> None:
    """The order of what concurrent handlers log may vary."""
    said = [
        line
        for line in tool.said().splitlines()
        if " INF " not in line and "error connecting to nsqd" not in line
    ]
    if "--mode=foo" in str(tool.process.args) or "--mode=all" in str(tool.process.args):
        warnings = [line for line in said if WARNING in line]
        assert len(warnings) == 1
        said.remove(warnings[0])
    for line in expected.replace("{ms}", "<number>").splitlines():
        found = [each for each in said if matches(line, each, places)]
        assert found, f"{line}\nis not in\n{tool.said()}"
        said.remove(found[0])
    assert not said


def _request(recorded: dict[str, object], places: dict[str, str]) -> str:
    request = json.loads(_filled_in(json.dumps(recorded), places))
    headers, body = request["headers"], request["body"].encode()
    return _shown(Request(request["method"], request["path"], headers, body))


def _shown(request: Request) -> str:
    return repr(request._replace(headers=dict(sorted(request.headers.items()))))


def _compare_order(requests: list[dict[str, str]], sinks: dict[str, Sink]) -> None:
    """One at a time, so that the order is a matter of the mode."""
    for word, sink in sinks.items():
        wanted = [each["body"].encode() for each in requests if each["to"] == f"{{{word}}}"]
        assert list(sink.bodies())[: len(wanted)] == wanted


# --- nsq_to_nsq ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", NSQ_RUNS, ids=name)
def test_nsq_run(
    case: Case, nsqd: Daemon, second: Daemon, places: dict[str, str], tmp_path: Path
) -> None:
    command = case["request"]["command"]
    topic = re.search(r"--topic=(\S+)", command)
    assert topic
    found = re.search(r"--destination-topic=(\S+)", command)
    destination = found[1] if found else topic[1]
    create(nsqd, topic[1], "c")
    for daemon in (nsqd, second):
        create(daemon, destination, "look")
    publish(nsqd, topic[1], _published(case))
    tool = start(command, places, tmp_path)
    try:
        _wait_for_outcome(case, nsqd, topic[1], tool)
        assert tool.stop() == case["expect"]["exit"]
        if case["expect"]["stderr"] != "(client log)":
            _compare_lines(case["expect"]["stderr"], tool, places)
    finally:
        tool.close()
    expected = case["expect"]["published"]
    if not isinstance(expected, dict):
        expected = {"destination 1": expected}
    for word, daemon in (("destination 1", nsqd), ("destination 2", second)):
        wanted = sorted(body.encode() for body in expected.get(word, []))
        assert sorted(bodies_in(daemon, destination, "look", len(wanted))) == wanted
        assert channel(daemon, destination, "look")["depth"] == 0


def _published(case: Case) -> list[bytes]:
    words = case["setup"].partition(": ")[2]
    bodies = json.loads(words) if words else [f"m{number}" for number in range(6)]
    return [body.encode("utf-8") for body in bodies]
