"""NSQ's manual, typed word for word: its quick start and its archive, and every flag of its tools.

The commands run on NSQ's own ports, so they get a network and a host name of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.net.http.client.keep_alive import KeepAliveConnection
from penstock.testing.daemons import run_nsqd
from tools.harness.auth_server import run_auth_server
from tools.harness.certificates import Certificates

FLAGS = json.loads((Path(__file__).parent / "samples" / "manual-tool-flags.json").read_text())
PROGRAMS = Path(sys.executable).parent
HOST = f"manual-{os.getpid()}"
ALONE = ["unshare", "--map-root-user", "--net", "--uts", "--mount"]
TO_THE_END = ["--pid", "--fork", "--kill-child"]
"""Whatever happens, no process of the script outlives it."""
SCRIPT_S_MAX = 180

# What a person does between the commands: looks whether the last one works.
SETUP = f"""
ip link set lo up
hostname {HOST}
echo 127.0.0.1 localhost {HOST} > hosts
mount --bind hosts /etc/hosts
until_up() {{ until curl -sf http://127.0.0.1:$1/ping >/dev/null; do sleep 0.05; done; }}
until_lines() {{
  until [ "$(cat /tmp/$1.{HOST}.*.log 2>/dev/null | wc -l)" -ge "$2" ]; do sleep 0.05; done
}}
until_channel() {{
  until curl -s 'http://127.0.0.1:4151/stats?format=json' | grep -q '"channel_name":"'$1
  do sleep 0.05; done
}}
"""
QUICK_START = """
nsqlookupd &
until_up 4161
nsqd --lookupd-tcp-address=127.0.0.1:4160 &
until_up 4151
nsqadmin --lookupd-http-address=127.0.0.1:4161 &
until_up 4171
curl -d 'hello world 1' 'http://127.0.0.1:4151/pub?topic=test'
nsq_to_file --topic=test --output-dir=/tmp --lookupd-http-address=127.0.0.1:4161 &
tool=$!
until_channel nsq_to_file
curl -d 'hello world 2' 'http://127.0.0.1:4151/pub?topic=test'
curl -d 'hello world 3' 'http://127.0.0.1:4151/pub?topic=test'
until_lines test 3
curl -s 'http://127.0.0.1:4171/api/topics/test'
kill -INT $tool; wait $tool; echo "exit $?"
kill $(jobs -p); wait
"""
ARCHIVE = """
nsqd &
until_up 4151
curl -d 'a request' 'http://127.0.0.1:4151/pub?topic=api_requests'
nsq_to_file --nsqd-tcp-address=127.0.0.1:4150 --topic=api_requests --channel=archive &
tool=$!
until_lines api_requests 1
kill -INT $tool; wait $tool; echo "exit $?"
kill $(jobs -p); wait
"""


@pytest.fixture(autouse=True)
def archived() -> Iterator[None]:
    """The manual's tools write to /tmp; what they left there goes."""
    yield
    for path in Path("/tmp").glob(f"*.{HOST}.*.log"):
        path.unlink()


def why_not() -> str | None:
    """Why a network of one's own cannot be had here; None when it can."""
    if not all(map(shutil.which, ("unshare", "ip", "curl"))):
        return "unshare, ip or curl is not on PATH"
    tried = subprocess.run([*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True)
    return tried.stderr.decode() if tried.returncode else None


def type_in(commands: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    return subprocess.run(
        [*ALONE, *TO_THE_END, "bash", "-c", SETUP + commands],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S_MAX,
    )


@pytest.mark.skipif(why_not() is not None, reason=f"no network of its own: {why_not()}")
@pytest.mark.parametrize(
    ("commands", "topic", "lines"),
    [
        (QUICK_START, "test", ["hello world 1", "hello world 2", "hello world 3"]),
        (ARCHIVE, "api_requests", ["a request"]),
    ],
    ids=["quick-start", "archive"],
)
def test_word_for_word(commands: str, topic: str, lines: list[str], tmp_path: Path) -> None:
    done = type_in(commands, tmp_path)
    archives = Path("/tmp").glob(f"{topic}.{HOST}.*.log")  # two where an hour ends meanwhile
    archived = "".join(archive.read_text() for archive in archives)
    assert sorted(archived.splitlines()) == lines, done.stderr
    assert "exit 0" in done.stdout, done.stderr
    if "nsqadmin" in commands:
        assert '"topic_name":"test","depth":0' in done.stdout
    assert "Traceback" not in done.stderr


def test_a_tool_that_is_authorized(certificates: Certificates, tmp_path: Path) -> None:
    """The command of the chapter AUTH: what was --reader-opt then still is."""
    with run_auth_server() as auth:
        auth.allow("good", topic="^secret$")
        flags = [*auth.flags, *certificates.flags()]
        with run_nsqd(*flags, "--tls-required=tcp-https") as nsqd:
            http = KeepAliveConnection("127.0.0.1", nsqd.http_port, 60, 1000)
            assert http.ask("POST", "/pub?topic=secret", b"for some").status == 200
            http.close()
            source = f"-topic=secret -nsqd-tcp-address={nsqd.tcp} -n=1"
            command = (
                f'nsq_tail {source} -reader-opt="tls_v1,true" -reader-opt="auth_secret,$SECRET"'
            )
            done = subprocess.run(
                ["bash", "-c", f'PATH="{PROGRAMS}:$PATH"; {command}'],
                env={**os.environ, "SECRET": "good", "SSL_CERT_FILE": str(certificates.ca)},
                capture_output=True,
                text=True,
                timeout=SCRIPT_S_MAX,
            )
    assert (done.returncode, done.stdout) == (0, "for some\n"), done.stderr


@pytest.mark.parametrize("tool", FLAGS)
def test_every_flag(tool: str) -> None:
    """The usage names each flag of the manual with its kind and its default."""
    shown = subprocess.run([PROGRAMS / tool, "-h"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0
    known = dict(re.findall(r"^  -(\S+)(.*(?:\n    .*)*)", shown.stderr, re.MULTILINE))
    missing = set(FLAGS[tool]) - set(known)
    assert not missing
    for name, (kind, default) in FLAGS[tool].items():
        assert known[name].split("\n")[0].strip() == kind, name
        if default:
            assert f"(default {default})" in known[name], name
