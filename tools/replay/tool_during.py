"""What happens while a recorded run goes on, until it is to end.

What the recording did after so many milliseconds happens here when what it waited for has happened:
the tool has subscribed, the messages have been delivered.
"""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.parse
from typing import Any

from .admin_scenes import eventually
from .tool_run import Run


def act(run: Run) -> None:
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
            run.until(lambda: bool(run.scene.nsqds[0].topics()))


def _act_stat(run: Run) -> None:
    """The recorded ingress or egress comes between the two first looks."""
    if run.name not in ("nsq_stat ingress", "nsq_stat egress", "nsq_stat rate is truncated"):
        return
    run.until(lambda: "ingress" in run.process.stdout)
    with run.halted():  # it looks again only after all of this
        if run.name == "nsq_stat ingress":
            run.publish("st", ["x"] * 10)
        elif run.name == "nsq_stat egress":
            run.scene.nsqds[0].consume("st", 10, finish=5)
        else:
            run.publish("st", ["x"] * 3)


def _act_file(run: Run) -> None:
    if "topic-pattern" in run.command and "--topic=" not in run.command:
        _act_file_by_pattern(run)
        return
    if "{dead}" in run.case["request"]["command"]:
        eventually("its attempt", lambda: "couldn't create" in run.process.stderr)
        run.until(lambda: run.process.code() is not None)  # ours ends then
    else:
        run.until(lambda: "couldn't create" in run.process.stderr or run.is_live())
    expected_openings = run.expect["stderr"].count(" opening ")
    if "no messages" in run.name or not run.topics:
        time.sleep(0.5)
        _until_opened(run, expected_openings)
        return
    parts = _file_messages(run)
    for index, (topic, bodies, pause) in enumerate(parts):
        if "--sync-interval" in run.command:
            run.publish_at_once(topic, bodies)
        else:
            run.publish(topic, bodies)
        run.delivered()
        run.idle()
        opened = min(index + 1, expected_openings)
        _until_opened(run, opened)
        if index < len(parts) - 1:
            if "SIGHUP" in run.setup:
                run.process.signal(signal.SIGHUP)
            time.sleep(pause)
    if "is created with" in run.setup:
        target = run.dir / "done" / "a-000000.log"
        target.parent.mkdir(exist_ok=True)
        target.write_text("intruder\n")
        target.chmod(0o644)
    _until_opened(run, expected_openings)
    time.sleep(0.3 if re.search("ticks|sync|level error", run.name) else 0.05)


def _until_opened(run: Run, times: int) -> None:
    run.until(lambda: run.process.stderr.count(" opening ") >= times)


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
        run.subscribed()
        run.delivered()
        run.until(lambda: " opening " in run.process.stderr)
    else:
        run.until(lambda: not run.unlike())
    time.sleep(0.1)


def _act_http(run: Run) -> None:
    run.subscribed()
    recorded = [_http_body(each) for each in run.expect.get("http_requests", ())]
    bodies = [body for body in dict.fromkeys(recorded) if body is not None]
    if run.name == "nsq_to_http hostpool, first fails":
        bodies = ["m0", "m1"]
    elif run.name == "nsq_to_http status-every 2, two addresses":
        bodies += ["m8", "m9"]  # the record of the requests is cut off, their number is not
    elif run.name == "nsq_to_http sample 0":
        bodies = ["m", "n", "o"]
    run.publish(run.topics[0], bodies or ["m"])
    run.until(lambda: len(run.scene.requests) >= run.expect.get("http_request_count", 0))
    run.settled()
    run.until(lambda: not run.unlike())


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
    run.settled()
    run.until(lambda: not run.unlike())


def _published_count(run: Run) -> int:
    topic = run.destination()
    found = [nsqd.topics(topic).get(topic) for nsqd in run.scene.nsqds]
    return sum(each["message_count"] for each in found if each)
