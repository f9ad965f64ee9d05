from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.broker.publish.bounds import Overflow
from penstock.core.errors import ConfigError
from penstock.core.settings.option_kinds import Choice
from penstock.core.settings.options import load
from penstock.node.options import NodeOptions, default_node_id
from penstock.storage.durability import Durability


def parse(*argv: str) -> NodeOptions:
    return load(NodeOptions, argv, "a daemon")


@pytest.mark.parametrize("level", list(Durability))
def test_durability(level: Durability) -> None:
    assert parse(f"--durability={level.value.upper()}").durability is level
    kind = Choice(Durability, "durability", "level")
    assert kind.from_config(level.value) is level
    assert kind.show(level) == level.value


def test_an_unknown_durability_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--durability=hope")
    assert ended.value.code == 2
    assert "unknown durability 'hope' (memory, write, fsync)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"node_id": 1024}, "--node-id must be [0,1024)"),
        ({"node_id": -1}, "--node-id must be [0,1024)"),
        (
            {"e2e_processing_latency_percentiles": (0.5, 1.5)},
            "invalid E2E processing latency percentile: 1.5",
        ),
        ({"sync_timeout": 0}, "--sync-timeout must be greater than 0"),
        ({"max_attempts": 65536}, "--max-attempts must be [0,65535]"),
        ({"dead_letter_topic": "no name"}, "--dead-letter-topic=no name makes no topic name"),
        ({"group_retention": -1}, "--group-retention must not be negative"),
        ({"max_depth": -1}, "--max-depth and --max-bytes must not be negative"),
        (
            {
                "e2e_processing_latency_percentiles": (0.5,),
                "e2e_processing_latency_window_time": 0,
            },
            "--e2e-processing-latency-window-time must be greater than 0",
        ),
        (
            {"follow": "a:4151", "durability": Durability.MEMORY},
            "--follow needs --durability=write or fsync",
        ),
        (
            {"replicas_acked": -1},
            "--replicas-acked must not be negative, --replicas-timeout not 0",
        ),
        (
            {"replicas_acked": 1, "durability": Durability.MEMORY},
            "--replicas-acked needs --durability=write or fsync",
        ),
        ({"promote_hook_timeout": 0}, "--promote-hook-timeout must be greater than 0"),
    ],
)
def test_values_that_cannot_work_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        NodeOptions(**changes).check()
    assert str(refused.value) == text


def test_the_node_id_comes_from_the_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert default_node_id() == 16


@pytest.mark.parametrize("policy", list(Overflow))
def test_overflow(policy: Overflow) -> None:
    assert parse(f"--overflow={policy.value}").overflow is policy
    kind = Choice(Overflow, "overflow policy", "policy")
    assert kind.from_config(policy.value) is policy
    assert kind.show(policy) == policy.value


def test_an_unknown_overflow_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse("--overflow=burn")
    assert ended.value.code == 2
    assert "unknown overflow policy 'burn' (refuse, drop-oldest)" in capsys.readouterr().err
