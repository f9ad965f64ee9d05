"""``penstock pipeline run archive``: the pipeline that needs no file, by flags."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.pipeline.run import query_trigger, run_pipeline
from penstock.core.errors import PenstockError
from penstock.spark.errors import OptionError
from penstock.spark.pipelines import archive
from penstock.spark.settings import Settings

# The source's errors name its options, but the user of this command has typed flags.
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


def in_flags(said: str) -> str:
    """The source's message in the words of this command's flags."""
    for option, flag in _FLAGS.items():
        said = said.replace(option, flag)
    return said
