"""A real Prometheus, with short intervals, and its own checker of rules."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.debian import needed
from tests.metrics_pages import ask, until
from tools.harness.ports import unused_address

INTERVAL = "1s"
STOP_S_MAX = 30.0


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`. Skips the test where there is none, but not in CI."""
    return needed(name, "prometheus")


def promtool(*words: str) -> str:
    """The output of promtool, which must succeed."""
    ran = subprocess.run([program("promtool"), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, rule_file: Path) -> None:
        self._process = process
        self.address = address
        self._rule_file = rule_file

    def use(self, rules: str) -> None:
        """Take other rules from now on."""
        self._rule_file.write_text(rules)
        self._process.send_signal(signal.SIGHUP)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        found = self._get("query", query=expr)["result"]
        assert isinstance(found, list)
        return found

    def value(self, expr: str) -> float:
        """The value of an expression with one sample; 0 if it has none."""
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else 0.0

    def firing(self, name: str) -> list[dict[str, Any]]:
        """The alerts of this name that fire now: labels and annotations."""
        alerts = self._get("alerts")["alerts"]
        return [
            each for each in alerts
            if each["labels"]["alertname"] == name and each["state"] == "firing"
        ]  # fmt: skip

    def metadata(self) -> dict[str, tuple[str, str]]:
        """Kind and help of every metric that a target has now."""
        found = self._get("targets/metadata")
        return {each["metric"]: (each["type"], each["help"]) for each in found}

    def _get(self, what: str, **parameters: str) -> Any:
        status, body = ask(self.address, f"/api/v1/{what}?{urlencode(parameters)}")
        assert status == 200, body
        return json.loads(body)["data"]


@contextmanager
def run_prometheus(
    home: Path, jobs: Mapping[str, Sequence[str]], rules: str
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes these addresses, by job, until the end of the block."""
    address, rule_file, config = unused_address(), home / "rules.yml", home / "prometheus.yml"
    rule_file.write_text(rules)
    scraped = [{"job_name": job, "static_configs": [{"targets": list(addresses)}]}
               for job, addresses in jobs.items()]  # fmt: skip
    intervals = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    config.write_text(json.dumps(
        {"global": intervals, "rule_files": [str(rule_file)], "scrape_configs": scraped}
    ))  # fmt: skip
    words = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={home}/data",
             f"--web.listen-address={address}"]  # fmt: skip
    with (home / "log.txt").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=home)
    try:
        until(lambda: _is_ready(process, address, home))
        yield Prometheus(process, address, rule_file)
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)


def _is_ready(process: subprocess.Popen[bytes], address: str, home: Path) -> bool:
    assert process.poll() is None, (home / "log.txt").read_text()
    try:
        return ask(address, "/-/ready")[0] == 200
    except OSError:
        return False
