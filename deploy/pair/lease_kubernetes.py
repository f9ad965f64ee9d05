#!/usr/bin/env python3
"""A Lease of Kubernetes for a primary and its follower, asked by plain HTTP.

``lease_kubernetes.py take`` is a --promote-before-hook: exit code 0 if this node holds the Lease
for the epoch. ``lease_kubernetes.py tend`` runs beside each nsqd: while that is primary, it renews
the Lease; if another node holds it for this epoch or a higher one, it tells its nsqd to step back;
while that is a follower, and nobody has renewed the Lease for its duration, it promotes it.

The Lease has the holder's address and, as an annotation, its epoch. Each change names the version
that was read, so of two that change it at once, one is refused. Times are those of the API server,
in the Date of its answers: no clock of a node matters.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

ACCOUNT = Path(os.environ.get("PAIR_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
NAME = os.environ.get("PAIR_LEASE", "nsqd-pair")
DURATION_S = int(os.environ.get("PAIR_LEASE_SECONDS", "30"))
PAUSE_S = DURATION_S / 6
NODE = os.environ.get("PAIR_NODE", "127.0.0.1:4151")
"""Where nsqd's HTTP is asked from here."""
EPOCH = "penstock-epoch"
EPOCHS = re.compile("[0-9]{1,18}")
ASK_S = 10.0
PROMOTE_S = 120.0
TRIES = 5


class LeaseError(Exception):
    """The Lease is another's, or the API server does not answer."""


class Lease:
    """The Lease as it was read; ``now`` is the API server's time then."""

    def __init__(self, found: dict[str, Any], now: datetime) -> None:
        self.found = found
        self.now = now

    @property
    def holder(self) -> str:
        return str(self.found["spec"].get("holderIdentity") or "")

    @property
    def epoch(self) -> int:
        """The epoch of the holder; 0 if it never had one. Raises LeaseError if it is damaged."""
        told = (self.found["metadata"].get("annotations") or {}).get(EPOCH, "0")
        if not EPOCHS.fullmatch(told):
            raise LeaseError(
                f"the Lease {NAME} has the epoch {told!r}, which is no number: set its annotation "
                f"{EPOCH} to the primary's epoch, as its /replication says"
            )
        return int(told)

    @property
    def is_expired(self) -> bool:
        """True if nobody has renewed it for its duration."""
        spec = self.found["spec"]
        renewed = spec.get("renewTime")
        if not (self.holder and renewed):
            return True
        at = datetime.fromisoformat(renewed.replace("Z", "+00:00"))
        return self.now > at + timedelta(
            seconds=int(spec.get("leaseDurationSeconds") or DURATION_S)
        )

    def held(self, holder: str, epoch: int) -> dict[str, Any]:
        """The Lease to be written: held by this node, renewed now."""
        now = self.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {**self.found["spec"], "renewTime": now, "leaseDurationSeconds": DURATION_S}
        if holder != self.holder:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + bool(self.holder)
        spec["holderIdentity"] = holder
        metadata = dict(self.found["metadata"])
        metadata["annotations"] = {**(metadata.get("annotations") or {}), EPOCH: str(epoch)}
        return {**self.found, "metadata": metadata, "spec": spec}


class Api:
    """The API server, as a pod's service account reaches it."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        host = f"[{host}]" if ":" in host else host
        server = os.environ.get("PAIR_API", f"https://{host}:{port}")
        namespace = (ACCOUNT / "namespace").read_text().strip()
        self._leases = f"{server}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._tls = None
        if server.startswith("https:"):
            self._tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def read(self) -> Lease | None:
        """The Lease; None if there is none. Raises LeaseError."""
        try:
            return self._ask("GET", f"/{NAME}")
        except HTTPError as error:
            if error.code == 404:
                return None
            raise LeaseError(f"the API server refuses: {error}") from error

    def write(self, lease: Lease | None, holder: str, epoch: int) -> bool:
        """Make the Lease, or change it from what was read; False if it is not that any more.

        Raises LeaseError.
        """
        try:
            if lease is None:
                new = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                       "metadata": {"name": NAME}, "spec": {}}  # fmt: skip
                # Nobody's at first: the server's time, for its renewal, is known from the answer.
                made = self._ask("POST", "", Lease(new, datetime.now(UTC)).held("", epoch))
                return self.write(made, holder, epoch)
            self._ask("PUT", f"/{NAME}", lease.held(holder, epoch))
        except HTTPError as error:
            if error.code == 409:
                return False
            raise LeaseError(f"the API server refuses: {error}") from error
        return True

    def _ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> Lease:
        fields = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
                  "Content-Type": "application/json"}  # fmt: skip
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._leases + path, body, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ASK_S, context=self._tls) as answer:
                now = parsedate_to_datetime(answer.headers["Date"])
                return Lease(json.load(answer), now)
        except HTTPError:
            raise
        except (URLError, OSError, ValueError, TypeError) as error:
            raise LeaseError(f"the API server cannot be asked: {error}") from error


def take(api: Api, holder: str, epoch: int) -> int:
    """Hold the Lease for an epoch; the epoch, a higher one if another has held it for this one.

    Raises LeaseError if another node holds it.
    """
    for _ in range(TRIES):
        lease = api.read()
        wanted = epoch
        if lease is not None and lease.epoch >= epoch:
            if lease.holder == holder:
                wanted = lease.epoch
            elif lease.is_expired:
                wanted = lease.epoch + 1
            else:
                raise LeaseError(f"{lease.holder} holds the Lease {NAME} for epoch {lease.epoch}")
        if api.write(lease, holder, wanted):
            return wanted
    raise LeaseError(f"others change the Lease {NAME} all the time")


def tend(api: Api, own: str) -> str:
    """Look once; a line that says what was done, empty if there was nothing to do.

    Raises LeaseError.
    """
    status = node("GET", "/replication")
    role, epoch = status.get("role"), int(status.get("epoch") or 0)
    lease = api.read()
    if role == "primary":
        if lease is None or lease.holder in ("", own) or lease.epoch < epoch:
            api.write(lease, own, max(epoch, lease.epoch if lease else 0))
            return ""
        higher = max(lease.epoch, epoch + 1)
        fence = {"history": status.get("history", ""), "epoch": higher, "address": lease.holder}
        node("POST", "/replication/fence", fence)
        return f"{lease.holder} holds the Lease for epoch {lease.epoch}: this node stepped back"
    if role == "follower" and lease is not None and lease.is_expired:
        node("POST", "/replication/promote")
        return f"promoted this node: nobody has renewed the Lease for {DURATION_S} s"
    return ""


def node(method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    """The answer of the nsqd beside. Raises LeaseError."""
    fields = {}
    if secret := os.environ.get("PAIR_SECRET_FILE"):
        fields["Authorization"] = f"Bearer {Path(secret).read_text().strip()}"
    body = None if method == "GET" else json.dumps(content or {}).encode()
    request = urllib.request.Request(f"http://{NODE}{path}", body, fields, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PROMOTE_S) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        raise LeaseError(f"nsqd refuses {path}: {error.read().decode(errors='replace')}") from error
    except (URLError, OSError, ValueError) as error:
        raise LeaseError(f"nsqd cannot be asked: {error}") from error


def main() -> None:
    """Take the Lease once, or tend it until the end."""
    try:
        if sys.argv[1:] == ["take"]:
            epoch = take(Api(), os.environ["PENSTOCK_ADDRESS"], int(os.environ["PENSTOCK_EPOCH"]))
            print(f"epoch={epoch}")
            return
    except LeaseError as error:
        sys.exit(str(error))
    if sys.argv[1:] != ["tend"]:
        sys.exit("usage: lease_kubernetes.py take | tend")
    api, said = Api(), ""
    while True:
        try:
            line = tend(api, os.environ["PAIR_ADDRESS"])
        except LeaseError as error:
            line = str(error)
        if line and line != said:
            print(line, flush=True)
        said = line
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
