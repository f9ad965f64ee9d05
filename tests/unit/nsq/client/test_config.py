"""Options by their names, their checks, and what goes into IDENTIFY."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penstock.core.errors import ConfigError
from penstock.nsq.client import aio, blocking
from penstock.nsq.client.config import OPTIONS, Config


def test_identify() -> None:
    asked = json.loads(Config(client_id="me", hostname="h.example").identify_body())
    assert asked["client_id"] == "me"
    assert asked["hostname"] == "h.example"
    assert asked["user_agent"].startswith("penstock/")
    assert asked["feature_negotiation"] is True
    assert (asked["heartbeat_interval"], asked["output_buffer_timeout"]) == (30_000, 250)


@pytest.mark.parametrize("client", [aio.Consumer, blocking.Consumer])
def test_a_consumer_says_where_an_option_belongs(client: Callable[..., object]) -> None:
    said = r"^Consumer: max_attempts is an option: give config=Config\(max_attempts=\.\.\.\)$"
    with pytest.raises(TypeError, match=said):
        client("t", "c", max_attempts=0)
    with pytest.raises(TypeError, match=r"has no argument max_atempts; did you mean max_attempts"):
        client("t", "c", max_atempts=0)


@pytest.mark.parametrize("client", [aio.Producer, blocking.Producer])
def test_a_producer_says_where_an_option_belongs(client: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"^Producer: tls_v1 is an option: give config=Config\("):
        client("127.0.0.1:4150", tls_v1=True)
    with pytest.raises(TypeError, match=r"^Producer has no argument zzz$"):
        client("127.0.0.1:4150", zzz=True)


def test_numbers() -> None:
    config = Config(heartbeat_interval=-1, msg_timeout=0, sample_rate=5, hostname="a.b")
    asked = json.loads(config.identify_body())
    assert (asked["heartbeat_interval"], asked["msg_timeout"], asked["sample_rate"]) == (-1, 0, 5)
    assert asked["client_id"] == "a"


def test_options_by_name() -> None:
    config = Config().with_option("msg-timeout", "3s").with_option("max_attempts", "10")
    assert (config.msg_timeout, config.max_attempts) == (3.0, 10)
    assert config.with_option("tls_v1").tls_v1
    assert not config.with_option("skip-lookupd-authorization", "f").skip_lookupd_authorization
    assert Config().msg_timeout == 0


def test_more_attempts_than_nsq_counts_is_no_error() -> None:
    """Go's 16 bits wrap and make 4464 of it; any message has fewer attempts than this."""
    assert Config().with_option("max_attempts", "70000").max_attempts == 70_000


def test_refusals() -> None:
    with pytest.raises(ConfigError, match=r"^invalid option no_such$"):
        Config().with_option("no-such", "1")
    with pytest.raises(ConfigError, match=r"^invalid deflate_level ! 10 > 9$"):
        Config().with_option("deflate-level", "10")


def test_values_of_a_program_are_checked_by_validate() -> None:
    assert Config().validate() == Config()
    with pytest.raises(ConfigError, match=r"^invalid read_timeout ! 50ms < 100ms$"):
        Config(read_timeout=0.05).validate()
    with pytest.raises(ConfigError, match='"constant" is not exponential, full_jitter'):
        Config(backoff_strategy="constant").validate()
    with pytest.raises(ConfigError, match=r"local_addr .10.0.0.5. - address .* missing port"):
        Config(local_addr="10.0.0.5").validate()
    assert Config(local_addr="10.0.0.5:0").validate()


def test_heartbeats_come_before_patience_ends() -> None:
    with pytest.raises(
        ConfigError, match=r"^HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s$"
    ):
        Config(heartbeat_interval=90).validate()
    # Only together do they make sense, so setting one by its name does not judge yet.
    patient = Config().with_option("heartbeat_interval", "90s").with_option("read_timeout", "2m")
    assert patient.validate() is patient


def test_defaults_are_valid_and_explained() -> None:
    for each in OPTIONS.values():
        each.check(each.default)
        assert each.help.endswith(".")
