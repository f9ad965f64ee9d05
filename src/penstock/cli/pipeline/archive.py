"""``penstock pipeline run archive``: the pipeline that needs no file, by flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli.pipeline.run import duration_ns, query_trigger, run_pipeline
from penstock.core.errors import PenstockError
from penstock.spark.errors import OptionError
from penstock.spark.pipelines import archive
from penstock.spark.settings import Settings

# The source names its options; who runs this command has typed flags.
_FLAGS = {
    "lookupd_http_address": "--lookupd-http-address",
    "nsqd_http_address": "--nsqd-http-address",
    "maxRecordsPerTrigger": "--max-records-per-trigger",
    'the option "topic"': "--topic",
    "option timeout": "--timeout",
    "tls_v1=true": "--tls-v1",
    "tls_root_ca_file": "--tls-root-ca-file",
    "tls_insecure_skip_verify": "--tls-insecure-skip-verify",
    "tls_server_name": "--tls-server-name",
    "tls_cert": "--tls-cert",
    "tls_key": "--tls-key",
    "tls_v1": "--tls-v1",
}


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where to read and how nodes are asked, as flags say it."""

    lookupd_http_address: Sequence[str] = ()
    nsqd_http_address: Sequence[str] = ()
    timeout: str = "10s"
    tls_v1: bool | None = None
    tls_root_ca_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    tls_insecure_skip_verify: bool | None = None
    auth_secret: str | None = None

    def options(self) -> dict[str, str]:
        """Options of ``format("nsq")``. Raises PenstockError for a time that is none."""
        given: dict[str, Any] = {
            "lookupd_http_address": ",".join(self.lookupd_http_address),
            "nsqd_http_address": ",".join(self.nsqd_http_address),
            "timeout": seconds("--timeout", self.timeout),
            "tls_v1": self.tls_v1,
            "tls_root_ca_file": self.tls_root_ca_file,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
            "tls_server_name": self.tls_server_name,
            "tls_insecure_skip_verify": self.tls_insecure_skip_verify,
            "auth_secret": self.auth_secret,
        }
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
            if value not in (None, "")
        }


def run_archive(
    source: dict[str, str],
    to: Path,
    checkpoint: Path,
    *,
    format: str = "parquet",
    available_now: bool,
    every: str,
) -> None:
    """Archive until Ctrl-C, or with ``available_now`` until what is there now is archived.

    Raises PenstockError with one line for the user.
    """
    trigger = query_trigger("--trigger", available_now, every)
    pipeline = archive.pipeline(source, str(to), str(checkpoint), format)
    try:
        Settings.parse(source)
    except OptionError as error:
        raise PenstockError(in_flags(str(error))) from None
    run_pipeline(pipeline, trigger, in_flags)


def seconds(flag: str, duration: str) -> str:
    """A duration as the source's options want it. Raises PenstockError for one that is none."""
    return str(max(1, round(duration_ns(flag, duration) / 1e9)))


def in_flags(said: str) -> str:
    """What the source says, in the words of this command's flags."""
    for option, flag in _FLAGS.items():
        said = said.replace(option, flag)
    return said
