"""Replays what a real nsqadmin was seen to do against the nsqadmin under test.

Cases run in file order, each on an nsqadmin with its flags, over clusters that `admin_scenes`
prepares. The notifications among them are compared with what the endpoint got from the case before.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.core.gojson import dumps
from penstock.testing.daemons import DaemonError, run_nsqadmin, run_nsqd
from tools.harness.certificates import Certificates
from tools.harness.forking import start
from tools.harness.patience import PATIENT
from tools.harness.ports import unused_address
from tools.harness.samples import Case, load, matches

from .admin_scenes import BEFORE, WAIT_S, Cluster, eventually
from .page_settings import page_problem
from .tool_peers import Request, run_sink

FILE = "admin-api.jsonl"
_HEADERS = ("content-type", "x-nsq-content-type", "allow", "location", "content-length", "vary",
            "content-encoding")  # fmt: skip
_BARE = re.compile(r"(?<=[:\[,])\{(\w+)\}(?=[,}\]])")
_REPEATED = re.compile(r"\((\d+) bytes of x\)")
_OURS = [] if "PENSTOCK_NSQADMIN" in os.environ else ["--history-interval=0s"]
"""Only ours asks the nodes for a history, which would be noted here."""
_ANY = "\0"
"""Stands for a number that the recording masked."""

Outcomes = dict[str, str]
"""Name of a case -> what was wrong, empty when it held."""


def replay(file: Path) -> Outcomes:
    """Replays all cases."""
    cases = load(file)
    outcomes: Outcomes = {}
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(_scene(case), []).append(case)
    for scene, found in groups.items():
        try:
            with ExitStack() as stack:
                outcomes |= _SCENES[scene](stack, found)
        except DaemonError:
            if _OURS:  # Go's dies of a notification that it cannot deliver
                raise
    return outcomes


def _scene(case: Case) -> str:
    name = case["name"]
    if name.startswith("startup: "):
        return "startup"
    if name.startswith("upstream requests"):
        return "upstream"
    if name.startswith("nsqd with tls-required"):
        return "tls"
    if name.startswith("e2e "):
        return "latencies"
    lonely = ("older producer", "unreachable node", "one nsqd unreachable", "pre-release version",
              "unparsable version")  # fmt: skip
    return "registered" if name.startswith(lonely) else "main"


# --- scenes --------------------------------------------------------------------------------------


def _main_scene(stack: ExitStack, cases: list[Case]) -> Outcomes:
    return _Play(Cluster(stack), stack).all(cases)


def _latency_scene(stack: ExitStack, cases: list[Case]) -> Outcomes:
    flags = ("--e2e-processing-latency-percentile=1.0,0.99,0.5",
             "--e2e-processing-latency-window-time=1h")  # fmt: skip
    return _Play(Cluster(stack, *flags), stack).all(cases)


class _Play:
    """Runs cases over one cluster; an nsqadmin for each set of flags."""

    def __init__(self, cluster: Cluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self._stack = stack
        self._admins: dict[str, str] = {}
        self._number = 0

    def all(self, cases: Iterable[Case]) -> Outcomes:
        return {case["name"]: self._one(case) for case in cases}

    def _one(self, case: Case) -> str:
        try:
            name = case["name"]
            if name.startswith("notification: "):
                return self._notified(case)
            self.cluster.values["admin"] = self._admin(case)
            if name in BEFORE:
                BEFORE[name](self.cluster)
            self._number = len(self.cluster.noted)
            return exchange(case, self.cluster.values)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _admin(self, case: Case) -> str:
        """The address of the nsqadmin with a case's flags, patient unless it is asked for that."""
        flags = case["flags"].partition("   (")[0]
        notify = " --notification-http-endpoint=http://{notify}/n"
        if flags == "--lookupd-http-address={lookupd_http}":
            flags += notify
        if "http_client" not in case["request"]["path"]:
            flags = " ".join((*PATIENT, flags))  # a flag of the case comes later, and wins
        if flags not in self._admins:
            words = filled(flags, self.cluster.values).replace("'", "").split()
            address = unused_address()  # as the configuration shows it
            words.append(f"--http-address={address}")
            words += _OURS
            admin = self._stack.enter_context(run_nsqadmin(*words))
            self._admins[flags] = admin.http
        return self._admins[flags]

    def _notified(self, case: Case) -> str:
        expect = case["expect"]
        wanted = json.loads(_template(expect["body"], self.cluster.values))
        misses: list[str] = []

        def has_come() -> bool:
            for each in self.cluster.notifications():
                miss = difference(wanted, json.loads(each["body"]))
                if not miss:
                    self.cluster.noted.remove(each)
                    return each["path"] == "/n" and _is_json(each)
                misses.append(miss)
            return False

        try:
            eventually("the notification", has_come)
        except AssertionError:
            return f"not notified; of what came: {misses[-1:]}"
        return ""


def _is_json(request: Request) -> bool:
    kind: str = request["headers"]["content-type"]
    return kind == "application/json"


def _tls_scene(stack: ExitStack, cases: list[Case]) -> Outcomes:
    """One nsqd that wants TLS."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    certificates = Certificates(folder)
    cluster = Cluster(stack)
    for nsqd in cluster.nsqds:
        nsqd.kill()
    told = f"--lookupd-tcp-address={cluster.lookupd.tcp}"
    flags = ("--tls-required=true", *certificates.flags(), told)
    nsqd = stack.enter_context(run_nsqd(*flags))
    eventually("the nsqd with TLS", lambda: len(cluster.registered("/nodes")) == 1)
    cluster.nsqds[0] = nsqd
    cluster.values |= {
        "http": nsqd.http,
        "https": nsqd.https or "",
        "ca_file": str(certificates.ca),
    }
    _over_https(nsqd.https or "", certificates)
    eventually("its topic", lambda: bool(cluster.registered("/lookup?topic=t")))
    return _Play(cluster, stack).all(cases)


def _over_https(address: str, certificates: Certificates) -> None:
    connection = http.client.HTTPSConnection(
        address, timeout=WAIT_S, context=certificates.context()
    )
    for path in ("/channel/create?topic=t&channel=c", "/pub?topic=t"):
        if path.startswith("/channel"):
            connection.request("POST", "/topic/create?topic=t", b"")
            connection.getresponse().read()
        connection.request("POST", path, b"x")
        assert connection.getresponse().read() in (b"", b"OK")
    connection.close()


def _upstream_scene(stack: ExitStack, cases: list[Case]) -> Outcomes:
    """One server plays nsqlookupd and nsqd, and notes what it is asked."""
    noted: list[Request] = []
    sink, address = stack.enter_context(run_sink("fake", noted))
    port = int(address.rpartition(":")[2])
    node = {"broadcast_address": "127.0.0.1", "hostname": "h", "tcp_port": 1, "http_port": port,
            "version": "1.3.0", "topics": ["t"], "tombstones": [False]}  # fmt: skip
    topics: list[dict[str, Any]] = [{"topic_name": "t", "channels": []}]
    sink.reset(200, b"", **{"X-NSQ-Content-Type": "nsq; version=1.0"})
    values = {"fake": address, "fake_port": str(port)}
    admins: dict[str, str] = {}
    outcomes = {}
    for case in cases:
        flags = case["flags"]
        if flags not in admins:
            words = [*PATIENT, *filled(flags, values).split(), *_OURS]
            admins[flags] = stack.enter_context(run_nsqadmin(*words)).http
        body: dict[str, Any] = {**node, "producers": [node], "channels": ["c"]}
        asks_topics = case["request"]["path"].partition("?")[0] == "/api/topics"
        wants_names = asks_topics and case["request"]["method"] == "GET" and "lookupd" in flags
        body["topics"] = ["t"] if wants_names else topics
        told = {**node, "topics": ["t"]}
        sink.body = json.dumps(body | {"producers": [told]}).encode()
        noted.clear()
        outcomes[case["name"]] = _upstream_problem(case, values | {"admin": admins[flags]}, noted)
    return outcomes


def _upstream_problem(case: Case, values: dict[str, str], noted: list[Request]) -> str:
    expect, request = case["expect"], case["request"]
    status, _, body = _ask(request, values)
    asked = [f"{each['method']} {each['path']}" for each in noted]
    wanted = [filled(each, values) for each in expect["upstream_requests_in_order"]]
    if asked != wanted:
        return f"asked {asked} instead of {wanted}; answered {status} {body[:200]!r}"
    if noted:
        headers = noted[-1]["headers"]
        for name in ("accept", "content-length"):
            if headers.get(name) != expect["headers_of_the_last"].get(name):
                return f"{name} is {headers.get(name)}"
    return "" if status == expect["status"] else f"status {status} instead of {expect['status']}"


def _startup_scene(stack: ExitStack, cases: list[Case]) -> Outcomes:
    cluster = Cluster(stack)
    with ThreadPoolExecutor(4) as pool:
        admins = [unused_address() for _ in cases]
        values = [{**cluster.values, "admin": address} for address in admins]
        problems = pool.map(_startup_problem, cases, values)
        return {case["name"]: problem for case, problem in zip(cases, problems, strict=True)}


def _startup_problem(case: Case, values: dict[str, str]) -> str:
    program = os.environ.get("PENSTOCK_NSQADMIN")
    words = [program] if program else [sys.executable, "-m", "penstock.cli.nsqadmin"]
    words += filled(case["flags"], values).split()
    expect = case["expect"]
    stays = expect["exit"] == "still running"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(words, out, err)
        try:
            if stays:
                eventually("listening", lambda: b"listening" in _all(err))
            else:
                process.wait(WAIT_S)
            code = process.poll()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(WAIT_S)
        if code != (None if stays else expect["exit"]):
            return f"exit code {code}: {_all(err).decode()}"
        for name, file in (("stdout", out), ("stderr", err)):
            text = _all(file).decode()
            if stays:
                text = "".join(text.splitlines(keepends=True)[:2])
            if not matches(expect[name], text, values):
                return f"{name} is {text!r} instead of {expect[name]!r}"
    return ""


def _all(file: Any) -> bytes:
    """Without moving the place where the program writes on, which is the same."""
    return os.pread(file.fileno(), 1 << 24, 0)


_SCENES = {
    "main": _main_scene,
    "latencies": _latency_scene,
    "registered": lambda stack, cases: _Play(Cluster(stack), stack).all(cases),
    "tls": _tls_scene,
    "upstream": _upstream_scene,
    "startup": _startup_scene,
}


# --- one exchange --------------------------------------------------------------------------------


def exchange(case: Case, values: Mapping[str, str]) -> str:
    """What is wrong with the answer to a case; empty when nothing is."""
    expect = case["expect"]
    status, headers, body = _ask(case["request"], values)
    if status != expect["status"]:
        return f"status {status} instead of {expect['status']}: {body[:300]!r}"
    wanted = dict(expect["headers"])
    wanted.pop("transfer-encoding", None)  # ours have a length, however long they are
    if "content-length" not in wanted or "{" in expect["body"].replace('{"', ""):
        headers.pop("content-length", None)
        wanted.pop("content-length", None)
    if headers != wanted:
        return f"headers {headers} instead of {wanted}"
    return _body_problem(expect["body"], body, headers.get("content-encoding", ""), values)


def _ask(request: dict[str, Any], values: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(values["admin"], timeout=WAIT_S)
    body = filled(request.get("body", ""), values)
    if sized := _REPEATED.fullmatch(body):
        body = "x" * int(sized[1])
    headers = dict(request.get("headers", {}))
    try:
        path = filled(request["path"], values)
        connection.request(request["method"], path, body or None, headers)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        compared = {name: found[name] for name in _HEADERS if name in found}
        return answer.status, compared, answer.read()
    finally:
        connection.close()


def _body_problem(expected: str, body: bytes, coding: str, values: Mapping[str, str]) -> str:
    if expected.startswith("(compressed"):
        wbits = {"gzip": 31, "deflate": -15}[coding]
        return "" if b'"topics"' in zlib.decompress(body, wbits) else "nothing compressed"
    if expected == "(the single HTML page)":
        return "" if body.startswith(b"<!doctype html>") else "no page"
    text = body.decode()
    if expected.startswith(("(HTML) contains: ", "<!doctype html>")):
        return page_problem(filled(expected, values), text)
    if not expected.startswith('{"'):
        wanted = filled(expected, values)
        return "" if text == wanted else f"body {text!r} instead of {wanted!r}"
    if dumps(json.loads(text)) != body:
        return f"not written as Go would: {text!r}"
    return difference(json.loads(_template(expected, values)), json.loads(text))


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with what its placeholders stand for."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _template(expected: str, values: Mapping[str, str]) -> str:
    """Valid JSON; what was masked in it is marked."""
    return _BARE.sub(lambda found: json.dumps(_ANY), filled(expected, values))


def difference(expected: Any, actual: Any, where: str = "") -> str:
    """Where two values differ first; empty when they do not. Keys must be in the same order.

    Nodes with equal host names come in any order, as they did when this was recorded.
    """
    if expected == _ANY:
        return "" if isinstance(actual, int | float) else f"{where} is {actual!r}"
    if isinstance(expected, dict) and isinstance(actual, dict):
        if where == ".stats":  # by keys that hold ports
            expected = dict(sorted(expected.items()))
        if list(expected) != list(actual):
            return f"{where} has {list(actual)} instead of {list(expected)}"
        found = (difference(expected[each], actual[each], f"{where}.{each}") for each in expected)
        return next(filter(None, found), "")
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{where} has {len(actual)} items instead of {len(expected)}"
        pairs = zip(_sorted(expected), _sorted(actual), strict=True)
        found = (difference(*pair, f"{where}[{at}]") for at, pair in enumerate(pairs))
        return next(filter(None, found), "")
    if isinstance(expected, str) and isinstance(actual, str) and "{" in expected:
        return "" if matches(expected, actual) else f"{where} is {actual!r}, not {expected!r}"
    if type(expected) is type(actual) and expected == actual:
        return ""
    return f"{where} is {actual!r} instead of {expected!r}"


def _sorted(items: list[Any]) -> list[Any]:
    if not all(isinstance(each, dict) and each.keys() & {"node", "http_port"} for each in items):
        return items
    return sorted(items, key=lambda each: (each.get("http_port", 0), each.get("node", ""),
                                           each.get("topic_name", "")))  # fmt: skip
