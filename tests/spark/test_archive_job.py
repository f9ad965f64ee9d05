"""The Spark child of ``demo`` and ``up`` over the one Spark: begins, archives, proves.

tests/spark/programs has it as a process.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import pytest

from penstock.cli.live import archive_file, archive_job
from penstock.nsq.client.blocking import Producer
from penstock.testing.daemons import run_nsqd, run_nsqlookupd
from tests.spark.test_sink import wait_for_topic


@pytest.mark.usefixtures("lent")
def test_it_proves_what_is_in_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its own
    monkeypatch.setattr(sys, "stdin", io.StringIO("begin\nfinish 400\n"))
    with run_nsqlookupd() as lookupd, run_nsqd(f"--lookupd-tcp-address={lookupd.tcp}") as nsqd:
        with Producer(nsqd.tcp) as producer:
            producer.multi_publish(
                "flights", [b'{"seq":%d,"carrier":"UA","dep_delay":2}' % n for n in range(400)]
            )
        wait_for_topic(lookupd, nsqd, "flights")
        archive_file.write(tmp_path, "flights", "127.0.0.1:9")
        monkeypatch.setattr(sys, "argv", ["archive_job", str(tmp_path), lookupd.http])
        archive_job.main()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (batch,) = (facts for facts in said if "archived" in facts)
    assert (batch["archived"], batch["rows"]) == (400, 400)
    assert said[-1]["finished"] is True
    assert said[-1]["proof"] == [
        {"carrier": "UA", "events": 400, "distinct": 400, "first": 0, "last": 399, "delay": 2.0}
    ]
