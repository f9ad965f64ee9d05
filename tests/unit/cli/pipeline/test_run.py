"""Flags of ``penstock pipeline run archive``, and errors in their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.live.display import Board
from penstock.cli.pipeline import run
from penstock.cli.pipeline.run import in_flags, run_archive
from penstock.cli.pipeline.status import StatusFile
from penstock.cli.shared.stop import Stop
from penstock.core.errors import PenstockError
from penstock.spark.pipelines import archive


def test_errors_use_the_words_of_the_flags(tmp_path: Path) -> None:
    def refuse(**source: str) -> str:
        given = {"topic": "t", "timeout": "1", **source}
        with pytest.raises(PenstockError) as refused:
            run_archive(given, str(tmp_path), str(tmp_path), available_now=True, every="1s")
        return str(refused.value)

    assert refuse().startswith(
        "say where the nodes are: --lookupd-http-address or --nsqd-http-address"
    )
    assert refuse(nsqd_http_address="nohost").startswith("--nsqd-http-address must be host:port")
    assert refuse(topic="").startswith("--topic is missing")
    # Spark was not started yet, and this first look has a timeout of its own.
    assert refuse(nsqd_http_address="127.0.0.1:9") == (
        "node 127.0.0.1:9 cannot be reached for topic t: connection refused (tried for 1 s); "
        "start it and run the same command to go on"
    )
    assert in_flags("tried for 10 s; option timeout") == "tried for 10 s; --timeout"
    assert in_flags("set tls_v1=true, and tls_root_ca_file if") == (
        "set --tls-v1, and --tls-root-ca-file if"
    )


def test_display_and_ctrl_c_do_not_wait_for_a_node_as_long_as_the_query_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(run, "Cluster", lambda settings: asked.append(settings.timeout_s))
    source = {"topic": "t", "nsqd_http_address": "h:1"}
    display: Any = None
    for patient in ("600", "1"):
        spec = archive.pipeline(source | {"timeout": patient}, "lake", "s3a://b/c").spec
        run._View(spec, Board(""), display, StatusFile("s3a://b/c"), Stop())
    assert asked == [3, 1]
