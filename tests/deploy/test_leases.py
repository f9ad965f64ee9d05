"""The leases of ``deploy/pair``: of several nodes, one holds an epoch."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.daemons import run_nsqd
from tests.copies import ask, publish, until, until_copied
from tools.harness.ports import unused_address

from .pairs import PAIR, ApiServer, api_server, loaded

LEASE_FILE = PAIR / "lease-file.sh"


def asked(file: Path, address: str, epoch: int, history: str = "h") -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "PENSTOCK_EPOCH": str(epoch),
                   "PENSTOCK_HISTORY": history, "PENSTOCK_ADDRESS": address}  # fmt: skip
    return subprocess.Popen([LEASE_FILE, str(file)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip


def said(file: Path, address: str, epoch: int, history: str = "h") -> tuple[int, str]:
    process = asked(file, address, epoch, history)
    output = process.communicate(timeout=60)[0]
    return process.returncode, output


def test_a_file_holds_who_has_won_an_epoch(tmp_path: Path) -> None:
    file = tmp_path / "a lease"
    assert said(file, "b:4151", 2) == (0, "epoch=2\n")
    assert said(file, "b:4151", 2) == (0, "epoch=2\n"), "its own"
    code, output = said(file, "c:4151", 2)
    assert (code, output.startswith(f"b:4151 holds {file} for epoch 2")) == (1, True)
    assert said(file, "c:4151", 3) == (0, "epoch=3\n"), "who has heard of epoch 2 comes after it"
    assert said(file, "c:4151", 2) == (0, "epoch=3\n")
    assert said(file, "b:4151", 2)[0] == 1
    assert said(file, "d:4151", 9, "another") == (
        1, f"{file} is the lease of other nodes: give each pair one of its own\n"
    )  # fmt: skip
    assert file.read_text() == "h 3 c:4151\n"


@pytest.mark.parametrize(
    "line",
    ["h x c:4151\n", "h 2x c:4151\n", "h -2 c:4151\n", "h 99999999999999999999 c:4151\n", "h 2\n",
     "h\n", "\n", "", "h x c:4151"],
)  # fmt: skip
def test_a_file_whose_epoch_is_no_number_is_nobody_s(tmp_path: Path, line: str) -> None:
    file = tmp_path / "lease"
    file.write_text(line)
    for address in ("b:4151", "c:4151"):
        code, output = said(file, address, 3)
        assert (code, output) == (1, (
            f"{file} is damaged, so whose epoch it is cannot be known: write 'HISTORY EPOCH "
            "ADDRESS' of the primary into it, as its /replication says, or remove it if no node "
            "is primary\n"))  # fmt: skip
    assert file.read_text() == line


def test_a_file_without_the_end_of_its_line_is_read_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "lease"
    file.write_text("h 2 c:4151")
    assert said(file, "b:4151", 2)[0] == 1
    assert said(file, "b:4151", 3) == (0, "epoch=3\n")


def test_of_many_at_once_one_gets_the_file(tmp_path: Path) -> None:
    processes = [asked(tmp_path / "lease", f"{number}:4151", 2) for number in range(8)]
    for each in processes:
        each.communicate(timeout=60)
    assert sorted(each.returncode for each in processes) == [0] + [1] * 7


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """An API server, and the environment of a pod for it."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret\n")
    (account / "namespace").write_text("orders")
    with api_server("secret") as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
        monkeypatch.setenv("PAIR_API", server.url)
        monkeypatch.setenv("PAIR_ACCOUNT", str(account))
        yield server


def holder(api: ApiServer) -> tuple[str, str]:
    lease = api.leases["nsqd-pair"]
    return lease["spec"]["holderIdentity"], lease["metadata"]["annotations"]["penstock-epoch"]


def test_a_lease_of_kubernetes_is_held_by_one_address_in_an_epoch(api: ApiServer) -> None:
    script = loaded("lease_kubernetes")
    client = script.Api()
    assert script.take(client, "b", 2) == 2
    assert api.leases["nsqd-pair"]["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert script.take(client, "b", 2) == 2, "its own"
    with pytest.raises(script.LeaseError, match="b holds the Lease nsqd-pair for epoch 2"):
        script.take(client, "c", 2)
    assert script.take(client, "c", 3) == 3, "who has heard of epoch 2 comes after it"
    api.advance(30)
    with pytest.raises(script.LeaseError):
        script.take(client, "b", 3)
    api.advance(1)
    assert script.take(client, "b", 2) == 4, "expired: never an epoch that another may have had"
    assert api.leases["nsqd-pair"]["spec"]["leaseTransitions"] == 2


@pytest.mark.parametrize("epoch", ["x", "", "-2", "9" * 20])
def test_a_lease_whose_epoch_is_no_number_is_nobody_s(api: ApiServer, epoch: str) -> None:
    script = loaded("lease_kubernetes")
    client = script.Api()
    script.take(client, "c", 2)
    api.leases["nsqd-pair"]["metadata"]["annotations"]["penstock-epoch"] = epoch
    with pytest.raises(script.LeaseError, match=f"has the epoch '{epoch}', which is no number: "):
        script.take(client, "b", 3)


def test_of_two_changes_at_once_one_is_refused_and_looks_again(api: ApiServer) -> None:
    script = loaded("lease_kubernetes")
    client = script.Api()
    script.take(client, "a", 1)

    def meanwhile() -> None:
        api.before_put = lambda: None
        script.take(client, "c", 2)

    api.before_put = meanwhile
    with pytest.raises(script.LeaseError, match="c holds the Lease"):
        script.take(client, "b", 2)
    assert holder(api) == ("c", "2")


def test_an_api_server_that_refuses_or_is_away_gives_no_lease(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "account" / "token").write_text("expired")
    environment = {**os.environ, "PENSTOCK_ADDRESS": "b", "PENSTOCK_EPOCH": "2"}
    words = [sys.executable, str(PAIR / "lease_kubernetes.py"), "take"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        1, "the API server refuses: HTTP Error 401: Unauthorized\n"
    )  # fmt: skip
    monkeypatch.setenv("PAIR_API", f"http://{unused_address()}")
    script = loaded("lease_kubernetes")
    with pytest.raises(script.LeaseError, match="the API server cannot be asked"):
        script.take(script.Api(), "b", 2)


def test_a_lease_that_nobody_renews_promotes_the_follower_and_a_lost_one_fences(
    api: ApiServer,
) -> None:
    take = shlex.join([sys.executable, str(PAIR / "lease_kubernetes.py"), "take"])
    script: Any = loaded("lease_kubernetes")
    client = script.Api()

    def tend(address: str) -> str:
        script.NODE = address
        return str(script.tend(client, address))

    with run_nsqd() as a, run_nsqd(f"--follow={a.http}", f"--promote-before-hook={take}") as b:
        publish(a, "t", "1")
        until_copied(a, b, "t")
        assert tend(b.http) == "", "nobody has ever held it"
        for _ in range(2):
            api.advance(20)
            assert tend(a.http) == tend(b.http) == ""
            assert holder(api) == (a.http, "1")
        a.kill()
        with pytest.raises(script.LeaseError, match="nsqd cannot be asked"):
            tend(a.http)
        api.advance(31)
        assert tend(b.http).startswith("promoted this node")
        until(b, role="primary", epoch=2)
        assert holder(api) == (b.http, "2")
        assert tend(b.http) == ""
        assert script.take(client, "c:4151", 3) == 3
        assert "c:4151 holds the Lease for epoch 3" in tend(b.http)
        until(b, role="fenced", fenced_epoch=3)
        assert tend(b.http) == ""
        assert ask(b, "POST", "/pub?topic=t", b"x")[1]["message"] == "FENCED"
