"""What is there before a recorded run begins: files, answers, topics with messages."""

from __future__ import annotations

import re

from .tool_peers import lookup_answer, statuses_of
from .tool_run import Run


def prepare(run: Run) -> None:
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
            run.scene.nsqds[0].post(f"/topic/create?topic={topic}")
            run.until_known(topic)
        run.publish("tf", ["one", "two"])
        run.until_known("tf")
    if run.name.startswith("nsq_to_nsq order"):
        run.scene.nsqds[0].post(f"/topic/create?topic={run.topics[0]}")
        run.scene.nsqds[0].post(f"/channel/create?topic={run.topics[0]}&channel=c")
        run.publish(run.topics[0], (f"m{number}" for number in range(6)))


def _prepare_lookup(run: Run) -> None:
    wrapped = "wrapped" in run.name
    headers = {} if wrapped else {"X-NSQ-Content-Type": "nsq; version=1.0"}
    body = lookup_answer(run.values["tcp"], wrapped=wrapped)
    run.scene.sinks["fake_lookupd"].reset(200, body, **headers)
    run.publish("lk", ["z"])


def _prepare_stat(run: Run) -> None:
    first, second = run.scene.nsqds
    both = "lookupd" in run.command and "one dead" not in run.name
    for nsqd in (first, second) if both else (first,):
        nsqd.post("/topic/create?topic=st")
        nsqd.post("/channel/create?topic=st&channel=c")
    earlier = {"nsq_stat ingress": 3, "nsq_stat egress": 13}.get(run.name)
    if earlier is None:
        earlier = 16 if "header every 25" in run.name else 13 if "truncated" in run.name else 3
    run.publish("st", ["x"] * earlier)
    if earlier > 3 and run.name != "nsq_stat egress":
        first.consume("st", earlier - (0 if "truncated" in run.name else 3))


def _prepare_tail(run: Run) -> None:
    if run.name == "nsq_tail print-topic":
        for path in ("/topic/create?topic=tl", "/channel/create?topic=tl&channel=ch2"):
            run.scene.nsqds[0].post(path)
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
        run.until_known(run.topics[0])
