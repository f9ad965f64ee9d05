"""Options of an nsqd, what they follow from and refuse, and the codes of refused publishes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.publish.bounds import TopicFullError
from penstock.core.errors import (
    ConfigError,
    DiskFullError,
    ExitingError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from penstock.core.settings.options import load
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.core.units import HOUR, MILLISECOND, SECOND
from penstock.nsq.nsqd.data_path import open_node
from penstock.nsq.nsqd.http.refusals import refusal
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.storage.durability import Durability


def parse(*argv: str) -> NsqdOptions:
    return load(NsqdOptions, argv, "nsqd")


def test_defaults() -> None:
    """NSQ's are in the recorded help and /config (tests/conformance)."""
    options = parse()
    options.check()
    assert options.durability is Durability.WRITE
    assert (options.retention_time, options.retention_bytes, options.group_retention) == (0, 0, 0)
    assert (options.max_staged_bytes, options.staged_retention) == (1024**3, 24 * HOUR)
    # What has no effect may be anything.
    NsqdOptions(statsd_interval=0, e2e_processing_latency_window_time=0).check()


def test_limits_are_what_clients_may_ask_for() -> None:
    limits = parse("--max-rdy-count=7", "--max-msg-size", "100", "-msg-timeout=2s").limits()
    assert (limits.max_rdy_count, limits.max_msg_size, limits.msg_timeout) == (7, 100, 2 * SECOND)
    assert limits.max_req_timeout == HOUR
    assert limits.output_buffer_timeout == 250 * MILLISECOND


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_staged_bytes": -1}, "--max-staged-bytes must not be negative"),
        ({"staged_retention": 0}, "--staged-retention must be greater than 0"),
        ({"statsd_address": "127.0.0.1:9", "statsd_interval": 0},
         "--statsd-interval must be greater than 0"),
        ({"e2e_processing_latency_percentiles": (0.5,), "e2e_processing_latency_window_time": 0},
         "--e2e-processing-latency-window-time must be greater than 0"),
    ],
)  # fmt: skip
def test_values_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    """Those of Go's nsqd are in the recorded starts (nsqd-cli.jsonl)."""
    with pytest.raises(ConfigError) as refused:
        NsqdOptions(**changes).check()
    assert str(refused.value) == text


def test_a_policy_for_client_certificates_asks_tls_of_all() -> None:
    given = ("--tls-cert=c", "--tls-key=k")
    assert parse(*given).tls_needed is TlsRequired.NO
    assert parse(*given, "--tls-client-auth-policy=require").tls_needed is TlsRequired.YES
    both = ("--tls-client-auth-policy=require", "--tls-required=tcp-https")
    assert parse(*given, *both).tls_needed is TlsRequired.EXCEPT_HTTP


def test_unknown_experiments_have_no_effect() -> None:
    options = parse("--enable-experiment=topology-aware-consumption", "--enable-experiment=x")
    assert options.without_effect() == ["--enable-experiment=x"]


def options_at(path: Path, **changes: object) -> NsqdOptions:
    return NsqdOptions(**{"data_path": str(path), "node_id": 7, **changes})


@pytest.mark.parametrize(
    "wrong",
    [{"node_id": -1}, {"tls_cert": "/nope", "tls_key": "/nope"}, {"tls_root_ca_file": "/nope"}],
)
async def test_what_an_nsqd_would_refuse_leaves_the_data_as_it_is(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        await open_node(options_at(tmp_path, **wrong))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ExitingError(), "EXITING"),
        (TopicFullError("full"), "TOPIC_FULL"),
        (DiskFullError("full"), "DISK_FULL"),
        (TooManyFilesError("all open"), "TOO_MANY_OPEN_FILES"),
        (ReadOnlyError("a sync failed"), "DISK_FAILED"),
        (StorageError("bad"), "DISK_FAILED"),
    ],
)
def test_each_reason_has_a_code_of_its_own(error: StorageError, code: str) -> None:
    answer = refusal(error)
    assert (answer.status, answer.content) == (503, {"message": code})
