"""Options by name and their checks, names, delays, errors and events of the clients."""

from __future__ import annotations

import ast
import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock.nsq.client as client
from penstock import nsq
from penstock.core.errors import ConfigError, PenstockError
from penstock.nsq.client import aio, blocking, errors
from penstock.nsq.client.config import OPTIONS, Config
from penstock.nsq.client.delays import DELAY_MAX, deferral_ms, requeue_delay
from penstock.nsq.client.errors import BadChannel, BadTopic
from penstock.nsq.client.events import EVENTS, tell
from penstock.nsq.client.names import checked_addresses, checked_channel, checked_topic


def test_identify() -> None:
    asked = json.loads(Config(client_id="me", hostname="h.example").identify_body())
    assert (asked["client_id"], asked["hostname"]) == ("me", "h.example")
    assert asked["user_agent"].startswith("penstock/")
    assert asked["feature_negotiation"] is True
    assert (asked["heartbeat_interval"], asked["output_buffer_timeout"]) == (30_000, 250)
    config = Config(heartbeat_interval=-1, msg_timeout=0, sample_rate=5, hostname="a.b")
    asked = json.loads(config.identify_body())
    assert (asked["heartbeat_interval"], asked["msg_timeout"], asked["sample_rate"]) == (-1, 0, 5)
    assert asked["client_id"] == "a"


@pytest.mark.parametrize("library", [aio, blocking])
@pytest.mark.parametrize(
    ("kind", "option", "said"),
    [
        ("Consumer", "max_attempts",
         r"^Consumer: max_attempts is an option: give config=Config\(max_attempts=\.\.\.\)$"),
        ("Consumer", "max_atempts", "has no argument max_atempts; did you mean max_attempts"),
        ("Producer", "tls_v1", r"^Producer: tls_v1 is an option: give config=Config\("),
        ("Producer", "zzz", r"^Producer has no argument zzz$"),
    ],
)  # fmt: skip
def test_a_client_says_where_an_option_belongs(
    library: ModuleType, kind: str, option: str, said: str
) -> None:
    names = ("t", "c") if kind == "Consumer" else ("127.0.0.1:4150",)
    with pytest.raises(TypeError, match=said):
        getattr(library, kind)(*names, **{option: 0})


def test_options_by_name() -> None:
    config = Config().with_option("msg-timeout", "3s").with_option("max_attempts", "10")
    assert (config.msg_timeout, config.max_attempts) == (3.0, 10)
    assert config.with_option("tls_v1").tls_v1
    assert not config.with_option("skip-lookupd-authorization", "f").skip_lookupd_authorization
    assert Config().msg_timeout == 0
    # Go's 16 bits wrap and make 4464 of it; any message has fewer attempts than this.
    assert Config().with_option("max_attempts", "70000").max_attempts == 70_000


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"read_timeout": 0.05}, r"^invalid read_timeout ! 50ms < 100ms$"),
        ({"backoff_strategy": "constant"}, '"constant" is not exponential, full_jitter'),
        ({"local_addr": "10.0.0.5"}, r"local_addr .10.0.0.5. - address .* missing port"),
        ({"heartbeat_interval": 90},
         r"^HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s$"),
    ],
)  # fmt: skip
def test_values_of_a_program_are_checked_by_validate(options: dict[str, Any], text: str) -> None:
    assert Config(local_addr="10.0.0.5:0").validate()
    with pytest.raises(ConfigError, match=text):
        Config(**options).validate()


def test_what_makes_sense_together_only_is_not_judged_option_by_option() -> None:
    patient = Config().with_option("heartbeat_interval", "90s").with_option("read_timeout", "2m")
    assert patient.validate() is patient


def test_defaults_are_valid_and_explained() -> None:
    for each in OPTIONS.values():
        each.check(each.default)
        assert each.help.endswith(".")


# --- names and addresses


def test_valid_names() -> None:
    assert checked_topic("t#ephemeral", "PUB") == "t#ephemeral"
    assert checked_channel("c") == "c"
    assert checked_addresses(iter(["h:1"])) == ["h:1"]


@pytest.mark.parametrize("name", ["", "two words", "t\nCLS", "ä", "x" * 65])
def test_invalid_names(name: str) -> None:
    with pytest.raises(BadTopic, match=r"^E_BAD_TOPIC MPUB topic name "):
        checked_topic(name, "MPUB")
    with pytest.raises(BadChannel, match=r"^E_BAD_CHANNEL SUB channel name "):
        checked_channel(name)


@pytest.mark.parametrize(
    ("check", "error", "text"),
    [
        (lambda: checked_topic(b"t", "PUB"), TypeError, "topic name b't' is not a str"),  # type: ignore[arg-type]
        (lambda: checked_channel(None), TypeError, "channel name None is not a str"),  # type: ignore[arg-type]
        (lambda: checked_addresses("h:1"), TypeError, r"given as a list: \['h:1'\]"),
        (lambda: checked_addresses([["h:1"]]), TypeError, r"address \['h:1'\] is not a str"),  # type: ignore[list-item]
        (lambda: checked_addresses(["h"]), ValueError, "missing port"),
    ],
    ids=["topic", "channel", "text", "list", "port"],
)  # fmt: skip
def test_what_is_no_name_and_no_address(
    check: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        check()


# --- delays


def test_deferrals_are_sent_in_milliseconds() -> None:
    assert [deferral_ms(delay) for delay in (0, 0.0004, 1.5)] == [0, 0, 1500]


@pytest.mark.parametrize(
    ("check", "delay"),
    [
        *((deferral_ms, delay) for delay in (-1, -0.001, math.nan, math.inf, 1e300)),
        *((requeue_delay, delay) for delay in (math.nan, math.inf, 1e300)),
    ],
)
def test_delays_that_no_command_can_carry(check: Callable[[float], object], delay: float) -> None:
    with pytest.raises(ValueError, match="a delay of"):
        check(delay)


@pytest.mark.parametrize("delay", [None, -math.inf, -1, 0, 1.5, DELAY_MAX])
def test_a_requeue_may_leave_its_delay_to_the_options(delay: float | None) -> None:
    assert requeue_delay(delay) == delay


# --- errors and events


PROBLEMS = (
    "INVALID BAD_BODY BAD_TOPIC BAD_CHANNEL BAD_MESSAGE BAD_PROTOCOL IDENTIFY_FAILED SUB_FAILED "
    "PUB_FAILED MPUB_FAILED DPUB_FAILED FIN_FAILED REQ_FAILED TOUCH_FAILED AUTH_FIRST AUTH_FAILED "
    "AUTH_DISABLED AUTH_ERROR UNAUTHORIZED"
)
CODES = [f"E_{problem}" for problem in PROBLEMS.split(" ")]


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_its_own(code: str) -> None:
    error = errors.server_error(f"{code} something failed")
    assert type(error) is not errors.ServerError
    assert errors.code_of(type(error)) == error.code == code
    assert str(error) == error.text == f"{code} something failed"
    assert isinstance(error, PenstockError)


def test_a_code_we_do_not_know() -> None:
    error = errors.server_error("E_TOO_MANY_CHANNEL_CONSUMERS x")
    assert type(error) is errors.ServerError
    assert error.code == "E_TOO_MANY_CHANNEL_CONSUMERS"


def test_a_line_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.nsq.client"):
        tell(logging.INFO, "connecting", "connecting to nsqd", topic="t", address="h:1")
        tell(logging.DEBUG, "ready", "not wanted")
        tell(logging.INFO, "backoff", "slow", topic="t", channel="c", trace=ValueError("why"))
    record, other = caplog.records
    assert other.getMessage() == "[t/c] slow"
    assert "ValueError: why" in caplog.text
    assert record.getMessage() == "(h:1) connecting to nsqd"
    assert vars(record)["nsq"] == {"event": "connecting", "topic": "t", "address": "h:1"}


def test_these_are_the_events_that_are_told() -> None:
    told = set()
    for module in Path(nsq.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("tell"):
                told |= {arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    assert told == EVENTS


def test_every_name_is_there() -> None:
    assert all(getattr(client, name) is not None for name in client.__all__)
    with pytest.raises(AttributeError):
        _ = client.nothing
