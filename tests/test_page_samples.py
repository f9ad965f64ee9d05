"""What the pages show of logs, answers, files and records, held against the real ones."""

from __future__ import annotations

import configparser
import io
import json
import logging
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from penstock.core.errors import PenstockError
from penstock.core.settings import java_properties
from penstock.log_api.log_client import LogClient
from penstock.nsq.client import Config
from penstock.nsq.client.blocking import Consumer, Producer
from penstock.nsq.tools.stat import PlainTable
from penstock.rocketmq.broker.acl.rules import Account
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.protocol.messages import message
from penstock.testing.daemons import Daemon, run_nsqadmin, run_nsqd
from tests.forwarding import create, publish, wait_until
from tests.page_blocks import sample
from tests.page_terminal import shows
from tests.spark.test_cluster import EXECUTORS_NEED
from tests.unit.cli.top import test_draw
from tests.unit.rocketmq.protocol import test_frames
from tests.unit.rocketmq.protocol.messages import test_message
from tools.harness.auth_server import run_auth_server
from tools.harness.patience import PATIENT
from tools.harness.ports import unused_address
from tools.pages.documentation import ROOT

ALICE = "Basic YWxpY2U6c2VjcmV0"


def keys(value: Any, path: str = "") -> set[str]:
    """The places of all values in a JSON value, whatever the items of a list."""
    if isinstance(value, dict):
        found = {f"{path}.{key}" for key in value if not key.isdigit()}
        return found.union(*(keys(each, f"{path}.{key}") for key, each in value.items()))
    if isinstance(value, list):
        return set().union(*(keys(each, f"{path}[]") for each in value))
    return set()


@pytest.fixture(scope="module")
def statsd() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(60)
        yield receiver


@pytest.fixture(scope="module")
def nsqd(statsd: socket.socket) -> Iterator[Daemon]:
    """A node that has an idea of everything."""
    to_statsd = f"--statsd-address=127.0.0.1:{statsd.getsockname()[1]}"
    percentiles = "--e2e-processing-latency-percentile=0.99,0.5"
    with run_nsqd(to_statsd, "--statsd-interval=2s", percentiles, "--retention-time=1h") as nsqd:
        create(nsqd, "t", "c")
        publish(nsqd, "t", [b"tea"])
        with LogClient(nsqd.http) as log:
            log.commit("t", "g", {0: 0})
        shown = json.loads(session_output("monitoring.md", "4151/pipelines"))["pipelines"][0]
        shown["groups"] = [["t", "g"]]
        post(f"http://{nsqd.http}/pipelines", shown)
        yield nsqd


def session_output(page: str, mark: str) -> str:
    return sample(page, mark).partition("\n")[2]


def post(url: str, value: Any, **headers: str) -> None:
    request = urllib.request.Request(url, json.dumps(value).encode(), headers)
    urllib.request.urlopen(request, timeout=60).close()


def get(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"http://{address}{path}") as answer:
        return json.load(answer)


# --- what nodes answer ----------------------------------------------------------------------------


def test_groups_and_latencies_in_the_stats_of_a_node(nsqd: Daemon) -> None:
    (topic,) = get(nsqd.http, "/stats?format=json")["topics"]
    groups = json.loads("{" + sample("monitoring.md", '"log_groups"') + "}")
    latency = json.loads("{" + sample("monitoring.md", '"e2e_processing_latency"') + "}")
    latency["e2e_processing_latency"]["percentiles"] = []  # of finished messages, of which is none
    assert groups
    assert keys(groups | latency) <= keys(topic)


def test_pipelines_of_a_node(nsqd: Daemon) -> None:
    shown = json.loads(session_output("monitoring.md", "4151/pipelines"))
    assert keys(shown) == keys(get(nsqd.http, "/pipelines"))


def test_lines_for_statsd(nsqd: Daemon, statsd: socket.socket) -> None:
    address = nsqd.http.replace(".", "_").replace(":", "_")
    wanted = {
        line.partition(":")[0].replace("127_0_0_1_4151", address) + "|" + line[-1]
        for line in sample("monitoring.md", "|c").splitlines()
        if "e2e" not in line
    }
    got: set[str] = set()
    while not wanted <= got:
        for line in statsd.recv(65536).decode().splitlines():
            got.add(re.sub(r":.*\|", "|", line))


def test_a_line_of_the_log_as_json(tmp_path: Path) -> None:
    words = ["--log-format=json", "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.nsqd", *words, f"--data-path={tmp_path}"],
        stderr=subprocess.PIPE,
    ) as nsqd:  # fmt: skip
        assert nsqd.stderr is not None
        real = (json.loads(line) for line in nsqd.stderr)
        like = next(each for each in real if each["message"].startswith("TCP: listening on"))
        nsqd.terminate()
    shown = json.loads(sample("deploy.md", "```json"))
    assert shown.keys() == like.keys()
    same = ("level", "program", "logger")
    assert [shown[name] for name in same] == [like[name] for name in same]


def test_a_group_in_nsqadmin(nsqd: Daemon) -> None:
    shown = json.loads(sample("spec/nsqadmin-api.md", '"kind":"log"'))
    with run_nsqadmin(f"--nsqd-http-address={nsqd.http}", *PATIENT) as admin:
        wait_until(lambda: get(admin.http, "/api/groups")["groups"], lambda: "no groups")
        assert keys(shown) == keys(get(admin.http, "/api/groups"))


def test_a_notification_of_nsqadmin(nsqd: Daemon) -> None:
    told: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.handle_request)
    thread.start()
    to_us = f"--notification-http-endpoint=http://127.0.0.1:{server.server_port}/"
    with run_nsqadmin(f"--nsqd-http-address={nsqd.http}", to_us, *PATIENT) as admin:
        post(f"http://{admin.http}/api/topics/t/c", {"action": "pause"}, Authorization=ALICE)
        thread.join(60)
    server.server_close()
    shown = json.loads(sample("nsqadmin.md", "pause_channel"))
    assert [each.keys() for each in told] == [shown.keys()]
    assert told[0]["action"] == shown["action"]


# --- what files have in them ----------------------------------------------------------------------


def test_accounts_of_rocketmq() -> None:
    found = yaml.safe_load(sample("rocketmq.md", "```yaml"))
    accounts = [Account.parse(each) for each in found["accounts"]]
    assert [each.access_key for each in accounts] == ["admin-key", "orders-key"]
    assert set(found) == {"globalWhiteRemoteAddresses", "accounts"}


def test_properties_of_tls_between_master_and_slave() -> None:
    found, unknown = BrokerSettings.load(sample("rocketmq.md", "```properties"))
    assert unknown == []
    found.check()
    assert found.may_be_copied
    assert found.tls_ha_trust_cert_path.endswith("/brokers-ca.pem")


def test_properties_of_a_broker() -> None:
    found = java_properties.loads(sample("spark.md", "```properties"))
    assert found
    assert {*found} <= {*BrokerSettings.declared(), *BrokerSettings.without_effect}


def test_a_part_of_a_unit() -> None:
    shown, unit = configparser.ConfigParser(), (ROOT / "deploy/systemd/nsqd.service").read_text()
    shown.read_string(sample("deploy.md", "```ini"))
    assert shown.sections() == ["Service"]
    assert "ReadWritePaths" in sample("deploy.md", "```ini")
    assert "ProtectSystem=strict" in unit


@pytest.mark.parametrize("mark", ["nsqd.toml", "nsqd@1", "docker build", "helm install"])
def test_files_in_commands_that_are_run_elsewhere_exist(mark: str) -> None:
    found = re.findall(r"deploy/[\w./@-]+", sample("deploy.md", mark))
    assert found
    assert [path for path in found if not (ROOT / path).exists()] == []


def test_packages_of_executors() -> None:
    shown = sample("pipelines.md", "```dockerfile")
    installed = re.findall(r"pip install (.*)", shown)[0].split()
    assert set(installed) <= set(EXECUTORS_NEED)
    pinned = re.findall(r"^pyspark==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.M)
    assert f"FROM apache/spark:{pinned[0]}-python3\n" in shown


def test_flags_of_the_archive_on_a_cluster() -> None:
    text = (ROOT / "src/penstock/spark/pipelines/archive.py").read_text()
    for mark in "--to s3a://", "pipeline zip":
        _, _, given = sample("spark.md", mark).partition("archive.py")
        flags = re.findall(r"--[a-z-]+", given)
        assert flags
        assert [flag for flag in flags if f'"{flag}"' not in text] == []


def test_the_answer_of_an_auth_server() -> None:
    with run_auth_server() as server:
        server.answer("billing", (200, sample("security.md", "```json")))
        with (
            run_nsqd(*server.flags) as nsqd,
            Producer(nsqd.tcp, config=Config(auth_secret="billing")) as producer,
        ):
            producer.publish("invoices", b"tea")
            with pytest.raises(PenstockError, match="E_UNAUTHORIZED"):
                producer.publish("others", b"tea")


def test_lines_of_a_client() -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("penstock.nsq.client")
    log.addHandler(handler)
    try:
        with Consumer("orders", "billing", nsqd_tcp_addresses=[unused_address()]) as consumer:
            while not said:
                assert consumer.get(timeout=0.1) is None
    finally:
        log.removeHandler(handler)
    assert shows("\n".join(said), sample("client.md", "```log").strip())


def test_columns_of_the_screens() -> None:
    screens = {"penstock top  by": test_draw.TOPICS, "penstock top  topic": test_draw.ONE_TOPIC}
    for mark, drawn in screens.items():
        titles = [line for line in sample("cli.md", mark).splitlines() if "IN FL." in line]
        assert titles
        for line in titles:
            known = next(each for each in drawn.splitlines() if each[:6] == line[:6])
            assert set(line.split()) <= set(known.split())


# --- what is in the specifications ----------------------------------------------------------------


def test_frames_of_rocketmq() -> None:
    _, binary, text, bare = sample("spec/rocketmq.md", "code 310").splitlines()
    assert bytes.fromhex(binary.partition(": ")[2]) == bytes.fromhex(test_frames.BINARY)
    assert text.endswith(test_frames.JSON + "hi")
    assert bytes.fromhex(bare.partition(": ")[2]) == bytes.fromhex(test_frames.BARE)


def test_a_record_of_rocketmq() -> None:
    *record, ids = sample("spec/rocketmq.md", "DAA320A7").splitlines()
    found, size = message.decode(bytes.fromhex("".join(record)))
    assert (found, size) == (test_message.RECORD, len(test_message.GOLDEN))
    assert found.offset_id in ids
    assert ids.endswith(str(message.body_crc(found.body)))


def test_the_heading_of_nsq_stat() -> None:
    out = io.StringIO()
    PlainTable(out).header()
    assert out.getvalue() == sample("spec/nsq.md", "------rate")


def test_the_stats_of_a_node_without_topics() -> None:
    with run_nsqd() as nsqd, urllib.request.urlopen(f"http://{nsqd.http}/stats") as answer:
        output = answer.read().decode()
    shown = sample("spec/nsq.md", "Topics: None").replace("<TAB>", "\t").splitlines()
    assert [line for line in shown if "…" not in line and not shows(output, line)] == []
