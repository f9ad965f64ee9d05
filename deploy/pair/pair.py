#!/usr/bin/env python3
"""A node of a pair, started and watched: for systemd with keepalived, and for Kubernetes.

``pair.py start nsqd FLAGS...`` becomes nsqd, with --follow=OTHER unless this node is the primary.
``pair.py start mqbroker -c FILE`` becomes mqbroker, whose properties are those of FILE with the
role of this node: the brokerRole of FILE is that of whichever node is master.
``pair.py alive`` ends with 0 if the node answers and is not fenced: a fenced one needs a new start,
to follow. ``pair.py is-primary`` ends with 0 on the primary. ``pair.py notify TYPE NAME STATE`` is
keepalived's: with the virtual address comes the promotion.

The environment says who they are: PAIR_NODES, the HTTP addresses of both, of mqbrokers those of
their haListenPort, of which the first begins as primary; PAIR_ADDRESS, this one of them;
PAIR_DATA_PATH. With PAIR_CA_FILE they are asked by HTTPS, with the certificate of PAIR_CERT_FILE
and PAIR_KEY_FILE if they want one.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import syslog
import urllib.request
from pathlib import Path
from typing import Any

ASK_S = 3.0
NODE = os.environ.get("PAIR_NODE", "127.0.0.1:4151")
"""Where this node's HTTP is asked from here."""
CA_FILE, CERT_FILE, KEY_FILE = (
    os.environ.get(f"PAIR_{name}_FILE", "") for name in ("CA", "CERT", "KEY")
)
PENSTOCK = os.environ.get("PAIR_PENSTOCK", "/opt/penstock/bin/penstock")


def url(address: str) -> str:
    """The URL of a node."""
    return f"https://{address}" if CA_FILE else f"http://{address}"


def tls() -> ssl.SSLContext | None:
    """The way to ask by HTTPS; None without."""
    if not CA_FILE:
        return None
    context = ssl.create_default_context(cafile=CA_FILE)
    if CERT_FILE:
        context.load_cert_chain(CERT_FILE, KEY_FILE or None)
    return context


def status(address: str) -> dict[str, Any]:
    """A node's /replication; empty if it does not answer."""
    asked = f"{url(address)}/replication"
    try:
        with urllib.request.urlopen(asked, timeout=ASK_S, context=tls()) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return {}


def followed(own: str, nodes: list[str], data_path: Path) -> str:
    """The address of the node that this one is to follow: empty for the primary."""
    [other] = [each for each in nodes if each != own]
    try:
        role = json.loads((data_path / "replication.json").read_bytes())["role"]
    except FileNotFoundError:
        # Never copied, or a new disk: an empty node must not be primary beside its copy.
        is_primary = own == nodes[0] and not was_copied(other)
    else:
        is_primary = role == "primary"  # if the other was promoted, it finds out, and is fenced
    return "" if is_primary else other


def was_copied(other: str) -> bool:
    """True if the pair has a history, as the other node knows it."""
    return int(status(other).get("epoch") or 0) > 0


def with_role(command: list[str], other: str, folder: Path) -> list[str]:
    """The command line of a node that follows another, or none."""
    if Path(command[0]).name != "mqbroker":
        address = url(other) if CA_FILE else other
        return [*command, f"--follow={address}"] if other else command
    at = command.index("-c") + 1
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pair.properties"
    file.write_text(properties(Path(command[at]).read_text(), other))
    return [*command[:at], str(file), *command[at + 1 :]]


def properties(text: str, other: str) -> str:
    """A broker's properties with its role: the last of equal names counts."""
    if not other:
        return f"{text}\nbrokerId=0\n"
    roles = re.findall(r"^[ \t]*brokerRole[ \t]*[=:][ \t]*(\w+)", text, re.MULTILINE)
    promoted = roles[-1] if roles else "ASYNC_MASTER"
    return (f"{text}\nbrokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={other}\n"
            f"promotedBrokerRole={promoted}\n")  # fmt: skip


def start(command: list[str]) -> None:
    """Become the node."""
    own, named, data_path = (
        os.environ.get(f"PAIR_{name}", "") for name in ("ADDRESS", "NODES", "DATA_PATH")
    )
    nodes = named.split()
    if len(nodes) != 2 or own not in nodes or not data_path:
        sys.exit(f"PAIR_NODES={named!r} has to be two addresses, PAIR_ADDRESS={own!r} one of them, "
                 f"and PAIR_DATA_PATH={data_path!r} a folder")  # fmt: skip
    folder = Path(os.environ.get("RUNTIME_DIRECTORY", data_path))
    words = with_role(command, followed(own, nodes, Path(data_path)), folder)
    os.execvp(words[0], words)


def notify(state: str) -> None:
    """Follow keepalived: the holder of the virtual address is to be primary."""
    if state != "MASTER" or status(NODE).get("role") == "primary":
        return
    asked = [PENSTOCK, "promote", url(NODE) if CA_FILE else NODE]
    for flag, file in (("root-ca-file", CA_FILE), ("cert", CERT_FILE), ("key", KEY_FILE)):
        asked += [f"--tls-{flag}={file}"] * bool(file)
    environment = dict(os.environ)
    if secret := os.environ.get("PAIR_SECRET_FILE"):  # not a flag: everybody sees those
        environment["PENSTOCK_AUTH_SECRET"] = Path(secret).read_text().strip()
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
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
