"""RocketMQ's own name server and broker, from a folder with their jars."""

from __future__ import annotations

import shlex
from pathlib import Path

from .java import FOLDERS, missing

SERVERS = {
    version: folder for version, folder in FOLDERS.items() if list(folder.glob("rocketmq-broker-*"))
}
"""The folders of `PENSTOCK_ROCKETMQ_JAVA` that have servers, by version."""
_OPENINGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
"""What RocketMQ 4.9 needs of a JDK above 8."""
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SILENT = '<configuration><root level="OFF"/></configuration>'


def missing_servers() -> str | None:
    """Why they cannot be run here; None when they can."""
    if reason := missing():
        return reason
    return None if SERVERS else "no folder of PENSTOCK_ROCKETMQ_JAVA has the jars of a broker"


def variables(jars: Path, home: Path) -> dict[str, str]:
    """The environment variables that put those of a folder in the place of ours."""
    (home / "conf").mkdir(parents=True)
    for name in ("logback_namesrv", "logback_broker", "rmq.namesrv.logback", "rmq.broker.logback"):
        (home / "conf" / f"{name}.xml").write_text(_SILENT)
    return {
        "PENSTOCK_MQNAMESRV": _command(jars, home, "namesrv.NamesrvStartup", "-Xmx256m"),
        "PENSTOCK_MQBROKER": _command(
            jars, home, "broker.BrokerStartup", "-Xmx768m", "-XX:MaxDirectMemorySize=1g"
        ),
    }


def _command(jars: Path, home: Path, program: str, *memory: str) -> str:
    words = (
        "env", f"ROCKETMQ_HOME={home}", "java", *_OPENINGS, *_SMALL, *memory,
        f"-Duser.home={home}", "-cp", f"{jars}/*", f"org.apache.rocketmq.{program}",
    )  # fmt: skip
    return shlex.join(words)
