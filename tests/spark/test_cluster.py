"""The clusters of docs/pipelines.md: YARN, Kubernetes; test_submitted.py has the standalone one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.java import home_for_spark_submit
from tools.pages.documentation import DOCS, commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts Spark by shell scripts")

PAGE = DOCS / "pipelines.md"
EXECUTORS_NEED = ("numpy", "pyarrow", "pyspark", "py4j")
FILE = """
[source]
topic = "t"
nsqd_http_address = "{address}"
startingOffsets = "earliest"
[sql]
query = "select offset, cast(body as string) as text from input"
[sink]
format = "json"
path = "{folder}/out"
[run]
checkpoint = "{folder}/checkpoint"
settings = {{"spark.ui.enabled" = "false", "spark.driver.host" = "127.0.0.1"}}
"""


def page_command(*parts: str) -> list[str]:
    """The last command of the page that has all these words."""
    return [words for words in commands(PAGE) if {*parts} <= {*words}][-1]


def changed(words: Sequence[str], changes: dict[str, str]) -> list[str]:
    """The command with the places of this test in place of the page's."""
    for old, new in changes.items():
        words = [word.replace(old, new) for word in words]
    return list(words)


def with_flag(flag: str, words: Sequence[str]) -> list[str]:
    """A submit with this flag, as a user would add it."""
    cut = words.index("--")
    return [sys.executable, "-m", "penstock.cli.penstock", *words[1:cut], flag, *words[cut:]]


def pipeline(folder: Path, address: str) -> Path:
    file = folder / "metrics.toml"
    file.write_text(FILE.format(address=address, folder=folder))
    return file


def environment() -> dict[str, str]:
    ours = {"JAVA_HOME": str(home_for_spark_submit())}
    left_out = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")  # of a session in here
    return {name: value for name, value in os.environ.items() if name not in left_out} | ours


# --- Kubernetes -----------------------------------------------------------------------------------


class ApiServer:
    """Refuses what it is asked to create, and keeps it."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                refusal = {"kind": "Status", "status": "Failure", "code": 403, "message": "no pods"}
                body = json.dumps(refusal).encode()
                self.send_response(403)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                server.created.append(json.loads(self.rfile.read(size)))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


def test_kubernetes_is_asked_for_a_driver_that_has_the_zip_and_its_own_python(
    api: ApiServer, tmp_path: Path
) -> None:
    file = pipeline(tmp_path, "127.0.0.1:4151")
    words = changed(
        page_command("submit", "k8s://https://10.0.0.1:6443"),
        {"metrics.toml": str(file), "https://10.0.0.1:6443": api.address,
         "s3a://lake/uploads": f"file://{tmp_path}/uploads"},
    )  # fmt: skip
    (tmp_path / "uploads").mkdir()
    ended = subprocess.run(
        with_flag("--available-now", words),
        env=environment(), capture_output=True, text=True, timeout=580,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "no pods" in ended.stdout + ended.stderr
    (pod,) = [each for each in api.created if each["kind"] == "Pod"]
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == "registry.example/spark-py:4.3.0"
    variables = {each["name"]: each.get("value") for each in driver["env"]}
    (zip_,) = (tmp_path / "uploads").rglob("penstock-*.zip")
    assert variables["PYTHONPATH"] == zip_.name
    assert sys.executable not in variables.values()
    assert list((tmp_path / "uploads").rglob("metrics.toml"))
    assert "org.apache.spark.deploy.PythonRunner" in driver["args"]
    assert driver["args"][-2:] == [str(file), "--available-now"]


# --- YARN -----------------------------------------------------------------------------------------


def test_yarn_gets_a_command_that_spark_submit_understands(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = pipeline(tmp_path, "127.0.0.1:4151")
    words = changed(page_command("submit", "yarn"), {"metrics.toml": str(file)})
    ended = subprocess.run(
        with_flag("--dry-run", words), capture_output=True, text=True, check=True, timeout=300
    )
    line = shlex.split(ended.stdout)
    jvm: Any = spark._jvm
    scala = jvm.scala.jdk.javaapi.CollectionConverters
    variables = jvm.java.util.HashMap({"HADOOP_CONF_DIR": str(tmp_path)})
    given = jvm.org.apache.spark.deploy.SparkSubmitArguments(
        scala.asScala(jvm.java.util.ArrayList(line[1:])).toSeq(),
        jvm.PythonUtils.toScalaMap(variables),
    )
    assert (given.master(), given.deployMode()) == ("yarn", "cluster")
    assert (given.numExecutors(), given.executorCores()) == ("4", "2")
    assert Path(given.primaryResource()).name == "submitted.py"
    assert list(scala.asJava(given.childArgs())) == [str(file)]
    assert given.pyFiles().endswith(".zip")
    assert given.files().endswith("metrics.toml")
