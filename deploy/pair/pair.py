#!/usr/bin/env python3
"""A node of a pair, started and watched: for systemd with keepalived, and for Kubernetes.

``pair.py start nsqd FLAGS...`` becomes nsqd, with --follow=OTHER unless this node is the primary.
``pair.py alive`` ends with 0 if nsqd answers and is not fenced: a fenced one needs a new start, to
follow. ``pair.py is-primary`` ends with 0 on the primary. ``pair.py notify TYPE NAME STATE`` is
keepalived's: with the virtual address comes the promotion.

The environment says who they are: PAIR_NODES, the HTTP addresses of both, of which the first begins
as primary; PAIR_ADDRESS, this one of them; PAIR_DATA_PATH. In Kubernetes the Lease is asked too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import syslog
import urllib.request
from pathlib import Path
from typing import Any

ASK_S = 3.0
NODE = os.environ.get("PAIR_NODE", "127.0.0.1:4151")
"""Where nsqd's HTTP is asked from here."""
PENSTOCK = os.environ.get("PAIR_PENSTOCK", "/opt/penstock/bin/penstock")


def status(address: str) -> dict[str, Any]:
    """A node's /replication; empty if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/replication", timeout=ASK_S) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return {}


def flags(own: str, nodes: list[str], data_path: Path) -> list[str]:
    """The flags with which this node is to be started: none for the primary."""
    [other] = [each for each in nodes if each != own]
    try:
        role = json.loads((data_path / "replication.json").read_bytes())["role"]
    except FileNotFoundError:
        # Never copied, or a new disk: an empty node must not be primary beside its copy.
        is_primary = own == nodes[0] and not was_copied(other)
    else:
        is_primary = role == "primary"  # if the other was promoted, nsqd finds out, and is fenced
    return [] if is_primary else [f"--follow={other}"]


def was_copied(other: str) -> bool:
    """True if the pair has a history, as the other node or the Lease knows it."""
    if int(status(other).get("epoch") or 0) > 0:
        return True
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return False
    import lease_kubernetes  # beside this file

    lease = lease_kubernetes.Api().read()
    return lease is not None and lease.epoch > 0


def start(command: list[str]) -> None:
    """Become nsqd."""
    own, nodes = os.environ["PAIR_ADDRESS"], os.environ["PAIR_NODES"].split()
    words = [*command, *flags(own, nodes, Path(os.environ["PAIR_DATA_PATH"]))]
    os.execvp(words[0], words)


def notify(state: str) -> None:
    """Follow keepalived: the holder of the virtual address is to be primary."""
    if state != "MASTER" or status(NODE).get("role") == "primary":
        return
    asked = [PENSTOCK, "promote", NODE]
    if secret := os.environ.get("PAIR_SECRET_FILE"):
        asked.append(f"--auth-secret={Path(secret).read_text().strip()}")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    level = syslog.LOG_ERR if done.returncode else syslog.LOG_NOTICE
    syslog.openlog("penstock-pair")
    for line in (done.stdout + done.stderr).splitlines():
        print(line)
        syslog.syslog(level, line)
    sys.exit(done.returncode)


def main() -> None:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["start", *command] if command:
            start(command)
        case ["alive"]:
            sys.exit(status(NODE).get("role", "fenced") == "fenced")
        case ["is-primary"]:
            sys.exit(status(NODE).get("role") != "primary")
        case ["notify", _, _, state, *_]:
            notify(state)
        case _:
            sys.exit(
                "usage: pair.py start COMMAND... | alive | is-primary | notify TYPE NAME STATE"
            )


if __name__ == "__main__":
    main()
