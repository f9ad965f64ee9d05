"""Whether a run left what the recorded one left: outputs, files, requests, messages."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from .tool_run import Run


def compare(run: Run) -> None:
    """Raises Miss when something is not as recorded."""
    expect = run.expect
    wanted, said = run.fill(expect["stdout"]), run.process.stdout
    if run.name == "nsq_tail two topics":  # of two connections either may be first
        wanted, said = (
            "".join(sorted(wanted.splitlines(True))),
            "".join(sorted(said.splitlines(True))),
        )
    if run.tool == "nsq_stat" and run.stop:  # a slow machine lets it say more until the signal
        said = "".join(said.splitlines(True)[: len(wanted.splitlines())])
    run.check("stdout", wanted, said, matching=True)
    if expect["stderr"] != "(client log)":
        run.check("stderr", *run.unlike() or (None, None))
    if re.search("--mode=(foo|all)", run.command):
        run.check("warnings about the mode", 1, run.process.stderr.count("is not one of round"))
    if "files" in expect:
        compare_files(run)
    if "http_requests" in expect:
        compare_requests(run)
    if "published" in expect:
        compare_published(run)
    if "bytes_received_by_the_fake_nsqd" in expect:
        compare_bytes(run)
    if path := expect.get("lookupd_request_path"):
        run.check("lookupd path", path, [each["path"] for each in run.scene.requests])
    for path, headers in expect.get("lookupd_request", ()):
        compare_lookup(run, path, headers)
    run.check("channel", run.to_be_left, run.left())


def compare_files(run: Run) -> None:
    """The files of the output directory: names, modes, contents."""
    actual = {
        path.relative_to(run.dir).as_posix(): (oct(path.stat().st_mode & 0o777), _content(path))
        for path in sorted(run.dir.rglob("*"), key=_written)
        if path.is_file()
    }
    expected = {
        run.fill(run.dated(name)): (file["mode"], file["content"])
        for name, file in run.expect["files"].items()
    }
    if "rotation by name" in run.name or "ticks" in run.name:  # names, or empty files, vary
        run.check("contents", [each for each in expected.values() if each[1]],
                  [each for each in actual.values() if each[1]])  # fmt: skip
    else:
        run.check("files", expected, actual)


def _written(path: Path) -> tuple[int, Path]:
    """In the order of time, which is not that of names where these are seconds of a minute."""
    return path.stat().st_mtime_ns, path


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
    run.check("number of requests", run.expect["http_request_count"], len(found))
    names = {value: "{" + key + "}" for key, value in run.scene.values.items()}
    for each in wanted:
        each["to"] = names.get(each["to"], each["to"])
    if "epsilon-greedy" in run.name:  # chosen at random
        wanted = [{"body": each["body"]} for each in wanted]
        found = [{"body": each["body"]} for each in found]
    if "--n=1" not in run.command:
        wanted.sort(key=str)
        found.sort(key=str)
    else:
        found = found[: len(wanted)]  # the record of the longest run is cut off
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
    if run.tool == "nsq_to_nsq":
        expected = {"destination 1": [], "destination 2": [], **expected}
    for where, bodies in expected.items():
        number = 1 if where in ("destination 2", "second nsqd") else 0
        if where.startswith("tn"):
            topic = where
        else:
            topic = run.destination() if run.tool == "nsq_to_nsq" else run.topics[0]
        if run.tool == "nsq_to_nsq" and where == "destination 1" and "no destination" in run.name:
            continue  # the source topic itself
        found = run.scene.nsqds[number].consume(topic, len(bodies) + 1)
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
