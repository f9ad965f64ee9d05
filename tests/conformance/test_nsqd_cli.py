"""nsqd's command line and configuration file, flag by flag.

`samples/nsqd-flags.json` holds every flag of Go's nsqd with its type and default as its help shows
them, its TOML key, and what `GET /config/<key>` answers for the default.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.core.settings.options import load
from penstock.net.http.client.once import get
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.testing.daemons import run_nsqd
from tools.harness.certificates import Certificates
from tools.harness.samples import matches
from tools.replay.replay_cli import program_words

FLAGS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "samples" / "nsqd-flags.json").read_text()
)
WITH_KEY = {flag: known for flag, known in FLAGS.items() if "key" in known}

EXAMPLE = """
log_level = "info"
tcp_address = "0.0.0.0:4150"
http_address = "0.0.0.0:4151"
nsqlookupd_tcp_addresses = [
    "127.0.0.1:4160"
]
http_client_connect_timeout = "2s"
http_client_request_timeout = "5s"
mem_queue_size = 10000
max_bytes_per_file = 104857600
sync_every = 2500
sync_timeout = "2s"
msg_timeout = "60s"
max_msg_timeout = "15m"
max_msg_size = 1024768
max_req_timeout = "1h"
max_body_size = 5123840
max_heartbeat_interval = "60s"
max_rdy_count = 2500
max_output_buffer_size = 65536
max_output_buffer_timeout = "1s"
statsd_prefix = "nsq.%s"
statsd_interval = "60s"
statsd_mem_stats = true
e2e_processing_latency_percentiles = [
    1.0,
    0.99,
    0.95
]
e2e_processing_latency_window_time = "10m"
tls_cert = ""
tls_key = ""
tls_required = false
tls_min_version = ""
deflate = true
max_deflate_level = 6
snappy = true
"""
"""What the example file of NSQ's contrib folder sets."""

OTHER_VALUES: dict[str, tuple[str, str]] = {
    "auth_http_addresses": ('["127.0.0.1:1"]', '["127.0.0.1:1"]'),
    "auth_http_request_method": ('"post"', "post"),
    "broadcast_address": ('"h"', "h"),
    "e2e_processing_latency_percentiles": ("[0.5, 0.25]", "[0.5,0.25]"),
    "enable_experiment": ('["topology-aware-consumption"]', '["topology-aware-consumption"]'),
    "id": ("5", "5"),
    "log_level": ('"debug"', "1"),
    "log_prefix": ('"[x] "', "[x] "),
    "nsqlookupd_tcp_addresses": ('["127.0.0.1:1"]', '["127.0.0.1:1"]'),
    "statsd_address": ('"127.0.0.1:9"', "127.0.0.1:9"),
    "statsd_prefix": ('"p"', "p."),
    "tls_client_auth_policy": ('"require"', "require"),
    "tls_min_version": ('"tls1.2"', "771"),
    "tls_required": ('"tcp-https"', "1"),
    "topology_region": ('"r"', "r"),
    "topology_zone": ('"z"', "z"),
}
"""Keys whose type does not tell what to try: the TOML value, and what /config answers then."""
NOT_TRIED = {"data_path", "http_address", "https_address", "tcp_address"}


def usage() -> dict[str, tuple[str, str]]:
    """Type and default of each flag as the help shows them."""
    text = subprocess.run(
        [*program_words(), "-h"], capture_output=True, text=True, timeout=60
    ).stderr
    found = {}
    for line in re.finditer(r"^  -(\S+)(?: (\w+))?\n    \t(.*)$", text, re.MULTILINE):
        default = re.search(r" \(default (\"[^\"]*\"|[^() ]+)\)$", line[3])
        found[line[1]] = (line[2] or "", default[1] if default else "")
    return found


def test_the_help_lists_every_flag_with_its_type_and_default() -> None:
    listed = usage()
    assert FLAGS.keys() <= listed.keys()
    for flag, known in FLAGS.items():
        type_, default = listed[flag]
        assert type_ == known["type"], flag
        assert default == known["default"] or known["default"] == "<host>", flag


async def config(http: str, keys: set[str]) -> dict[str, str]:
    answers = {}
    for key in sorted(keys):
        answer = await get(f"http://{http}/config/{key}", 60)
        assert answer.status == 200, key
        answers[key] = answer.body.decode()
    return answers


async def test_every_default_is_shown_by_its_key() -> None:
    expected = {known["key"]: known["config"] for known in WITH_KEY.values()}
    with run_nsqd() as daemon:
        actual = await config(daemon.http, set(expected))
    wrong = {
        key: answer
        for key, answer in actual.items()
        if expected[key] != "<any>" and not matches(expected[key], answer)
    }
    assert wrong == {}


def test_every_flag_takes_its_default() -> None:
    """Given in words, the defaults change nothing and hinder nothing."""
    values = {flag: known["default"].strip('"') for flag, known in FLAGS.items()}
    given = [f"--{flag}={value}" for flag, value in values.items() if value not in ("", "<host>")]
    given += [f"--{flag}=false" for flag in ("verbose", "worker-id", "tls-required", "version")]
    addresses = [f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "https")]
    with run_nsqd(*given, *addresses) as daemon:
        assert daemon.stop() == 0


async def test_every_key_of_the_file_is_read(tmp_path: Path) -> None:
    """A whole file with no value at its default; flags change addresses alone."""
    certificates = Certificates(tmp_path)
    lines, expected = [], {}
    for known in WITH_KEY.values():
        if known["key"] in NOT_TRIED:
            continue
        written, shown = other_value(known, certificates)
        lines.append(f"{known['key']} = {written}")
        expected[known["key"]] = shown
    file = tmp_path / "nsqd.cfg"
    file.write_text("\n".join(lines))
    with run_nsqd(f"--config={file}", "--https-address=127.0.0.1:0") as daemon:
        actual = await config(daemon.http, set(expected))
    expected["broadcast_address"] = "127.0.0.1"  # run_nsqd's flag wins over the file
    assert actual == expected


def other_value(known: dict[str, Any], certificates: Certificates) -> tuple[str, str]:
    """Something else than the default, in TOML and as /config shows it."""
    key, default = known["key"], known["config"]
    files = {"tls_cert": "cert", "tls_key": "key", "tls_root_ca_file": "ca"}
    if key in files:
        path = certificates.placeholders()[files[key]]
        return json.dumps(path), path
    if key in OTHER_VALUES:
        return OTHER_VALUES[key]
    if known["type"] == "duration":
        return '"77s"', str(77 * 10**9)
    if known["type"] == "int":
        number = int(default) + 1 if default.isdigit() else 4999
        return str(number), str(number)
    assert default in ("true", "false"), key
    other = "false" if default == "true" else "true"
    return other, other


async def test_the_example_file_loads(tmp_path: Path) -> None:
    file = tmp_path / "nsqd.cfg"
    file.write_text(EXAMPLE)
    with run_nsqd(f"--config={file}") as daemon:
        keys = {"tls_min_version", "log_level", "msg_timeout", "e2e_processing_latency_percentiles"}
        answers = await config(daemon.http, keys)
    assert answers == {
        "tls_min_version": "769",
        "log_level": "2",
        "msg_timeout": "60000000000",
        "e2e_processing_latency_percentiles": "[1,0.99,0.95]",
    }


ANY_WORD = {flag for flag, known in FLAGS.items() if known["type"] in ("string", "value")}
CHOICES = {"log-level", "tls-min-version"}


@pytest.mark.parametrize("flag", sorted(FLAGS.keys() - ANY_WORD | CHOICES))
def test_a_value_of_another_kind_shows_the_usage(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In our own process, as there are many."""
    kind = FLAGS[flag]["type"]
    with pytest.raises(SystemExit) as ended:
        load(NsqdOptions, [f"--{flag}=maybe"], "nsqd")
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    word = "boolean value" if kind == "" else "value"
    flag_word = "for" if kind == "" else "for flag"
    assert lines[0].startswith(f'invalid {word} "maybe" {flag_word} -{flag}: ')
    assert lines[1] == "Usage of nsqd:"


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if FLAGS[flag]["type"] == "int"])
def test_a_number_beyond_64_bits_is_out_of_range(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number = str(1 << 63)
    with pytest.raises(SystemExit) as ended:
        load(NsqdOptions, [f"--{flag}={number}"], "nsqd")
    assert ended.value.code == 2
    line = capsys.readouterr().err.splitlines()[0]
    assert line == f'invalid value "{number}" for flag -{flag}: value out of range'


@pytest.mark.parametrize("flag", ["--sync-timeout=0", "--sync-timeout=-1s"])
def test_an_interval_of_zero_is_refused_at_the_start(flag: str, tmp_path: Path) -> None:
    """Go's nsqd panics later: --sync-timeout=0 at the first topic."""
    addresses = ["--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"]
    words = [sys.executable, "-m", "penstock.cli.nsqd", *addresses, f"--data-path={tmp_path}", flag]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "FATAL: failed to instantiate nsqd - --sync-timeout must be greater than 0\n"
    )
