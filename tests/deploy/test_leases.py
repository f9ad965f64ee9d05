"""The lease in Kubernetes, against an API server that keeps versions as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.lease.command import store_of
from penstock.cli.lease.kubernetes import ANNOTATION, Kubernetes
from penstock.cli.lease.record import LeaseError, Record, RefusedError
from penstock.core.errors import UsageError
from tools.harness.ports import unused_address

from .pairs import ApiServer, api_server


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """An API server, and the environment of a pod for it."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret\n")
    (account / "namespace").write_text("orders")
    with api_server("secret") as server:
        monkeypatch.setenv("PENSTOCK_KUBERNETES_API", server.url)
        monkeypatch.setenv("PENSTOCK_KUBERNETES_ACCOUNT", str(account))
        yield server


def test_a_lease_is_changed_by_one_of_two_and_kubectl_shows_its_holder(api: ApiServer) -> None:
    one, other = Kubernetes("pair"), Kubernetes("pair")
    nothing = one.read()
    assert nothing.record is None
    assert one.write(nothing, Record(holder="a:4151", epoch=1, in_sync=["b:4151"]))
    assert not other.write(nothing, Record(holder="b:4151", epoch=1)), "it is there by now"
    seen = other.read()
    assert seen.record == Record(holder="a:4151", epoch=1, in_sync=["b:4151"])
    assert one.write(one.read(), Record(holder="a:4151", epoch=1, renewals=2))
    assert not other.write(seen, Record(holder="b:4151", epoch=2))
    assert other.write(other.read(), Record(holder="b:4151", epoch=2, seconds=20))
    spec = api.leases["pair"]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("b:4151", 20)


def test_a_lease_that_is_none_of_ours_is_nobody_s(api: ApiServer) -> None:
    store = Kubernetes("pair")
    store.write(store.read(), Record(holder="a", epoch=1))
    api.leases["pair"]["metadata"]["annotations"][ANNOTATION] = "{"
    with pytest.raises(LeaseError, match="pair in Kubernetes is damaged"):
        store.read()
    del api.leases["pair"]["metadata"]["annotations"]
    made = store.read()
    assert made.record is None
    assert store.write(made, Record(holder="a", epoch=1)), "one that an operator made"


def test_an_api_server_that_refuses_or_is_away_gives_no_lease(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "account" / "token").write_text("expired")
    with pytest.raises(RefusedError, match="401"):
        Kubernetes("pair").read()
    monkeypatch.setenv("PENSTOCK_KUBERNETES_API", f"http://{unused_address()}")
    with pytest.raises(LeaseError, match="cannot be asked"):
        Kubernetes("pair").read()


def test_outside_of_a_pod_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LeaseError, match="not a pod of Kubernetes"):
        store_of("kubernetes:pair")


@pytest.mark.parametrize("url", ["", "etcd:", "etcd://a:2379", "etcd:///orders", "a:2379/orders",
                                 "kubernetes:", "kubernetes:a/b"])  # fmt: skip
def test_a_store_that_is_none_is_told_with_the_right_form(url: str) -> None:
    with pytest.raises(UsageError, match="must be etcd://HOST:2379,HOST:2379/NAME"):
        store_of(url)
