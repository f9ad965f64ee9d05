"""The secret between nodes: what a file may hold, and who is let in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.net.http.server.api import ApiError
from penstock.replication.secret import Secret


def request(**headers: bytes) -> Any:
    return SimpleNamespace(headers={name.encode(): value for name, value in headers.items()})


def test_without_a_secret_everybody_is_let_in() -> None:
    Secret.of("").check(request())
    assert Secret.of("").headers == {}


def test_with_a_secret_only_those_who_have_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("  correct-horse-battery\n")
    secret = Secret.of(str(tmp_path / "secret"))
    [header] = secret.headers.values()
    secret.check(request(authorization=header.encode()))
    for given in (request(), request(authorization=b"Bearer correct-horse-batter")):
        with pytest.raises(ApiError, match="REPLICATION_SECRET_REQUIRED"):
            secret.check(given)


@pytest.mark.parametrize("content", [b"", b"too short", b"two words of some length", b"\xff" * 20])
def test_a_file_without_a_usable_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match="--replication-secret-file"):
        Secret.of(str(tmp_path / "secret"))
    with pytest.raises(ConfigError, match="No such file"):
        Secret.of(str(tmp_path / "nothing"))
