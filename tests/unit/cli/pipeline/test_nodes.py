"""Flags of nodes as options of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.penstock import app
from penstock.cli.pipeline import run
from penstock.cli.pipeline.nodes import Nodes, seconds
from penstock.core.errors import PenstockError
from penstock.spark.settings import Settings


def test_timeouts_are_whole_seconds() -> None:
    assert seconds("--timeout", "10s") == "10"
    assert seconds("--timeout", "10ms") == "1"


def test_flags_are_options_of_the_source() -> None:
    nodes = Nodes(
        lookupd_http_address=("l:4161", "m:4161"),
        timeout="1m",
        tls_v1=True,
        tls_root_ca_file=Path("/ca.pem"),
        tls_cert=Path("/c.pem"),
        tls_key=Path("/k.pem"),
        tls_server_name="name",
        tls_insecure_skip_verify=True,
        auth_secret="secret",
    )
    settings = Settings.parse({"topic": "t", **nodes.options()})
    assert settings.lookupd == ("l:4161", "m:4161")
    access = settings.access
    assert (access.timeout_s, access.tls, access.verify) == (60, True, False)
    assert (access.root_ca_file, access.cert, access.key) == ("/ca.pem", "/c.pem", "/k.pem")
    assert (access.server_name, access.auth_secret) == ("name", "secret")
    assert Nodes(nsqd_http_address=("h:1",)).options() == {
        "nsqd_http_address": "h:1",
        "timeout": "10",
    }


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(PenstockError, match=r"^--timeout soon: give a duration such as"):
        Nodes(timeout="soon").options()


def test_the_archive_takes_the_flags_of_tls_and_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, str] = {}
    monkeypatch.setattr(run, "run_archive", lambda source, *_, **__: given.update(source))
    monkeypatch.setenv("PENSTOCK_AUTH_SECRET", "s3cret")
    app(
        ["pipeline", "run", "archive", "--topic=t", "--to=lake", "--checkpoint=c",
         "--nsqd-http-address=h:1", "--nsqd-http-address=i:1", "--tls-v1",
         "--tls-root-ca-file=/ca.pem"],
        result_action="return_value",
    )  # fmt: skip
    assert given == {
        "topic": "t", "timeout": "10", "nsqd_http_address": "h:1,i:1", "tls_v1": "true",
        "tls_root_ca_file": "/ca.pem", "auth_secret": "s3cret",
    }  # fmt: skip


def test_the_archive_may_be_on_any_file_system_of_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []
    monkeypatch.setattr(run, "run_archive", lambda _, *places, **__: given.extend(places))
    places = ["hdfs://nn:8020/lake", "hdfs://nn:8020/checkpoint"]
    app(
        ["pipeline", "run", "archive", "--topic=t", f"--to={places[0]}",
         f"--checkpoint={places[1]}", "--nsqd-http-address=h:1"],
        result_action="return_value",
    )  # fmt: skip
    assert list(map(str, given)) == places
