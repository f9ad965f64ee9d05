"""A lease in Kubernetes: a Lease of coordination.k8s.io, changed by its resource version.

It is asked as a pod's service account reaches the API server. Holder, duration and times are those
that ``kubectl get lease`` shows; the rest is an annotation.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.cli.lease.record import LeaseError, Record, RefusedError, Version, ask
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.malformed import MALFORMED
from penstock.core.units import SECOND

ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
ANNOTATION: Final = "penstock-lease"


class Kubernetes:
    """The Lease ``name`` in the pod's namespace."""

    def __init__(self, name: str) -> None:
        """Raise LeaseError outside of a pod."""
        self.name = f"{name} in Kubernetes"
        self._lease = name
        account = Path(os.environ.get("PENSTOCK_KUBERNETES_ACCOUNT", ACCOUNT))
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        server = os.environ.get("PENSTOCK_KUBERNETES_API", "")
        if not host and not server:
            raise LeaseError("this is not a pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set")
        host = f"[{host}]" if ":" in host else host
        server = server or f"https://{host}:{port}"
        self._token = account / "token"
        try:
            namespace = (account / "namespace").read_text().strip()
            is_secure = server.startswith("https:")
            certificates = str(account / "ca.crt")
            self._tls = ssl.create_default_context(cafile=certificates) if is_secure else None
        except OSError as error:
            raise LeaseError(f"the pod's service account cannot be read: {error}") from error
        self._url = f"{server}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def read(self) -> Version:
        try:
            found = self._ask("GET", f"/{self._lease}")
        except RefusedError as error:
            if error.status == 404:
                return Version(None)
            raise
        metadata = found.get("metadata") or {}
        said = (metadata.get("annotations") or {}).get(ANNOTATION)
        if said is None:
            return Version(None, str(metadata.get("resourceVersion", "")))
        try:
            record = msgspec.json.decode(said, type=Record)
        except MALFORMED as error:
            raise LeaseError(
                f"the lease {self.name} is damaged, so who holds it cannot be known ({error}): "
                "delete it once no node is primary"
            ) from error
        return Version(record, str(metadata["resourceVersion"]))

    def write(self, seen: Version, record: Record) -> bool:
        now = datetime.fromtimestamp(SYSTEM_CLOCK.wall_ns() / SECOND, UTC)
        metadata: dict[str, Any] = {
            "name": self._lease,
            "annotations": {ANNOTATION: msgspec.json.encode(record).decode()},
        }
        spec = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": max(1, int(record.seconds)),
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseTransitions": record.epoch,
        }
        if seen.mark:
            metadata["resourceVersion"] = seen.mark
        content = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
        try:
            if seen.mark:
                self._ask("PUT", f"/{self._lease}", content)
            else:
                self._ask("POST", "", content)
        except RefusedError as error:
            if error.status == 409:
                return False
            raise
        return True

    def _ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            token = self._token.read_text().strip()  # it is renewed now and then
        except OSError as error:
            raise LeaseError(f"the pod's service account cannot be read: {error}") from error
        fields = {"Authorization": f"Bearer {token}"}
        return ask(self._url + path, method, content, fields, self._tls)
