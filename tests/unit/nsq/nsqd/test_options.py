from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.core.settings.options import load
from penstock.core.settings.tls_kinds import TlsRequired
from penstock.core.units import HOUR, MILLISECOND, MINUTE, SECOND
from penstock.nsq.nsqd.options import NsqdOptions
from penstock.storage.durability import Durability


def parse(*argv: str) -> NsqdOptions:
    return load(NsqdOptions, argv, "nsqd")


def test_defaults_are_those_of_the_manual() -> None:
    options = parse()
    options.check()
    assert (options.tcp_address, options.http_address) == ("0.0.0.0:4150", "0.0.0.0:4151")
    assert (options.mem_queue_size, options.max_bytes_per_file) == (10_000, 104_857_600)
    assert (options.sync_every, options.sync_timeout) == (2500, 2 * SECOND)
    assert (options.msg_timeout, options.max_msg_timeout) == (MINUTE, 15 * MINUTE)
    assert (options.max_msg_size, options.max_body_size) == (1_048_576, 5_242_880)
    assert options.durability is Durability.WRITE
    assert (options.retention_time, options.retention_bytes) == (0, 0)
    assert options.group_retention == 0
    assert options.max_staged_bytes == 1024**3
    assert options.staged_retention == 24 * HOUR


def test_limits_are_what_clients_may_ask_for() -> None:
    limits = parse("--max-rdy-count=7", "--max-msg-size", "100", "-msg-timeout=2s").limits()
    assert (limits.max_rdy_count, limits.max_msg_size, limits.msg_timeout) == (7, 100, 2 * SECOND)
    assert limits.max_req_timeout == HOUR
    assert limits.output_buffer_timeout == 250 * MILLISECOND


def test_lists_add_up_and_commas_stay() -> None:
    options = parse("--lookupd-tcp-address=a:1", "--lookupd-tcp-address=b:2,c:3")
    assert options.lookupd_tcp_addresses == ("a:1", "b:2,c:3")
    options = parse("--e2e-processing-latency-percentile=0.5,0.99")
    assert set(options.e2e_processing_latency_percentiles) == {0.5, 0.99}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_deflate_level": 0}, "--max-deflate-level must be [1,9]"),
        ({"max_deflate_level": 10}, "--max-deflate-level must be [1,9]"),
        (
            {"auth_http_request_method": "put"},
            "--auth-http-request-method must be post or get",
        ),
        ({"max_staged_bytes": -1}, "--max-staged-bytes must not be negative"),
        ({"staged_retention": 0}, "--staged-retention must be greater than 0"),
        (
            {"statsd_address": "127.0.0.1:9", "statsd_interval": 0},
            "--statsd-interval must be greater than 0",
        ),
        (
            {"tls_required": TlsRequired.YES},
            "cannot require TLS client connections without TLS key and cert",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        NsqdOptions(**changes).check()
    assert str(refused.value) == text


def test_an_nsqd_refuses_what_its_node_does() -> None:
    with pytest.raises(ConfigError, match=r"^--sync-timeout must be greater than 0$"):
        NsqdOptions(sync_timeout=0).check()


def test_a_policy_for_client_certificates_asks_tls_of_all() -> None:
    given = ("--tls-cert=c", "--tls-key=k")
    assert parse(*given).tls_needed is TlsRequired.NO
    assert parse(*given, "--tls-client-auth-policy=require").tls_needed is TlsRequired.YES
    both = ("--tls-client-auth-policy=require", "--tls-required=tcp-https")
    assert parse(*given, *both).tls_needed is TlsRequired.EXCEPT_HTTP


def test_unknown_experiments_have_no_effect() -> None:
    options = parse("--enable-experiment=topology-aware-consumption", "--enable-experiment=x")
    assert options.without_effect() == ["--enable-experiment=x"]
