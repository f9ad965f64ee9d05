"""The files for a primary and its follower: how they are started, watched and promoted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.testing.daemons import run_nsqd
from tests.copies import publish, until, until_copied
from tests.debian import needed
from tests.rocketmq_pair import running_pair
from tests.unit.net.certificates import Certificates
from tools.deploy.manifests import KUBERNETES

from .pairs import PAIR, loaded
from .words import options_of

pytestmark = pytest.mark.nightly

OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((PAIR / "kubernetes.yaml").read_text()))
BIN = Path(sys.executable).parent
CHECKS = 10


def name(found: dict[str, Any]) -> str:
    return f"{found['kind']}-{found['metadata']['name']}"


def store_of_command(words: Sequence[str]) -> str:
    """The name of the Lease that a command looks after."""
    assert words[:2] == ["penstock", "lease"]
    scheme, _, found = words[2].partition(":")
    assert scheme == "kubernetes"
    return found


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] == kind]


@pytest.mark.parametrize(
    "wrong", [{"PAIR_ADDRESS": "c:4151"}, {"PAIR_NODES": "a:4151"}, {"PAIR_DATA_PATH": ""}], ids=str
)
def test_an_environment_that_makes_no_pair_is_told_in_a_line(wrong: dict[str, str]) -> None:
    right = {"PAIR_NODES": "a:4151 b:4151", "PAIR_ADDRESS": "a:4151", "PAIR_DATA_PATH": "/tmp/none"}
    done = subprocess.run([sys.executable, PAIR / "pair.py", "start", "nsqd"], env=right | wrong,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("PAIR_NODES=")


@pytest.mark.parametrize("found", OBJECTS, ids=name)
def test_kubernetes_schema_admits_each_object(found: dict[str, Any]) -> None:
    from kubernetes_validate import validate  # it takes seconds

    validate(found, KUBERNETES, strict=True)


def test_the_pods_take_their_flags_and_their_names_are_those_of_the_pair() -> None:
    [workload] = of_kind("StatefulSet")
    spec = workload["spec"]["template"]["spec"]
    nsqd, lease = spec["containers"]
    options = options_of(nsqd["args"])
    assert options.needs_lease
    assert store_of_command(lease["command"]) == "penstock-pair"
    environment = {each["name"]: each.get("value", "") for each in nsqd["env"]}
    assert environment["PAIR_DATA_PATH"] == options.data_path
    own, nodes = environment["PAIR_ADDRESS"], environment["PAIR_NODES"].split()
    set_name = workload["metadata"]["name"]
    assert nodes == [own.replace("$(POD_NAME)", f"{set_name}-{number}") for number in range(2)]
    assert own == f"{options.broadcast_address}:4151"
    assert lease["env"] == nsqd["env"]
    assert nsqd["readinessProbe"]["httpGet"]["path"] == "/ready", "a follower is not"
    scripts = {Path(nsqd["command"][1]).name}
    config = yaml.safe_load((PAIR / "kustomization.yaml").read_text())
    [generated] = config["configMapGenerator"]
    assert set(generated["files"]) == scripts
    assert config["resources"] == ["kubernetes.yaml"]
    assert spec["volumes"][0]["configMap"]["name"] == generated["name"]


def test_the_service_account_may_read_make_and_change_its_lease_alone() -> None:
    [workload], [role], [binding] = of_kind("StatefulSet"), of_kind("Role"), of_kind("RoleBinding")
    lease = workload["spec"]["template"]["spec"]["containers"][1]
    assert [(each["verbs"], each.get("resourceNames")) for each in role["rules"]] == [
        (["create"], None), (["get", "update"], [store_of_command(lease["command"])]),
    ]  # fmt: skip
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    account = workload["spec"]["template"]["spec"]["serviceAccountName"]
    assert [each["name"] for each in binding["subjects"]] == [account]
    assert [name(each) for each in of_kind("ServiceAccount")] == [f"ServiceAccount-{account}"]


def test_services_and_the_budget_select_both_pods() -> None:
    [workload] = of_kind("StatefulSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for each in (*of_kind("Service"), *of_kind("PodDisruptionBudget"), workload):
        selector = each["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items(), name(each)
    ready, nodes = of_kind("Service")
    assert not ready["spec"].get("publishNotReadyAddresses"), "the primary alone is ready"
    assert nodes["spec"]["publishNotReadyAddresses"] is True
    assert nodes["metadata"]["name"] == workload["spec"]["serviceName"]


def test_a_broker_is_told_its_role_and_what_it_becomes_when_promoted(tmp_path: Path) -> None:
    pair, file = loaded("pair"), tmp_path / "mqbroker.properties"
    for given, promoted in (("brokerRole = SYNC_MASTER", "SYNC_MASTER"), ("", "ASYNC_MASTER")):
        file.write_text(f"listenPort=7\n{given}")
        command = ["/opt/bin/mqbroker", "-c", str(file), "-n", "ns:1"]
        found = {}
        for other in ("", "127.0.0.1:2"):
            program, flag, own, *more = pair.with_role(command, other, tmp_path / "run")
            assert [program, flag, *more] == ["/opt/bin/mqbroker", "-c", "-n", "ns:1"]
            found[other], unknown = BrokerSettings.load(Path(own).read_text())
            assert unknown == []
            assert found[other].listen_port == 7
        master, slave = found.values()
        assert (master.broker_role, master.broker_id) == (promoted, 0)
        assert (slave.broker_role, slave.broker_id, slave.ha_master_address) == (
            "SLAVE", 1, "127.0.0.1:2",
        )  # fmt: skip
        assert slave.as_master().broker_role == promoted


@pytest.mark.parametrize(
    ("program", "file"),
    [
        ("nsqd", "nsqd-pair.service"),
        ("mqbroker", "mqbroker-pair.service"),
        ("penstock", "penstock-lease.service"),
    ],
)
def test_systemd_accepts_the_unit(program: str, file: str, tmp_path: Path) -> None:
    text = (PAIR / file).read_text()
    assert "\nNoNewPrivileges=yes\n" in text
    assert "EnvironmentFile=/etc/penstock/pair.env\n" in text
    assert f"/opt/penstock/bin/{program} " in text
    analyze = needed("systemd-analyze", "systemd")
    unit = tmp_path / file
    unit.write_text(text.replace("/opt/penstock/bin/", f"{BIN}/"))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_keepalived_calls_what_the_script_knows() -> None:
    text = (PAIR / "keepalived.conf").read_text()
    called = re.findall(r'"/usr/local/lib/penstock/pair\.sh ([\w-]+)"', text)
    assert called == ["alive", "is-primary", "notify"]
    assert text.count("{") == text.count("}")
    assert set(re.findall(r"^vrrp_script (\w+)", text, re.MULTILINE)) == set(
        re.search(r"track_script {([^}]*)}", text)[1].split()  # type: ignore[index]
    )


def test_a_node_that_was_never_copied_asks_before_it_is_primary(tmp_path: Path) -> None:
    pair = loaded("pair")
    nodes = ["127.0.0.1:1", "127.0.0.1:2"]
    assert pair.followed(nodes[0], nodes, tmp_path) == ""
    assert pair.followed(nodes[1], nodes, tmp_path) == nodes[0]
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        until(b, role="follower", epoch=1)
        assert pair.followed(a.http, [a.http, b.http], tmp_path) == b.http, "a new disk"
    for role, address in (("primary", ""), ("fenced", nodes[1])):
        (tmp_path / "replication.json").write_text(json.dumps({"role": role}))
        assert pair.followed(nodes[0], nodes, tmp_path) == address


class Machine:
    """A node of a pair with the environment of its unit, and keepalived's calls."""

    def __init__(
        self, folder: Path, own: str, data_path: Path, nodes: Sequence[str], more: str = ""
    ) -> None:
        folder.mkdir()
        self.file = folder / "pair.env"
        self.file.write_text(
            f'PAIR_NODES="{" ".join(nodes)}"\nPAIR_ADDRESS={own}\nPAIR_NODE={own}\n'
            f"PAIR_DATA_PATH={data_path}\nPAIR_PENSTOCK={BIN / 'penstock'}\n{more}"
        )

    def run(self, *words: str) -> tuple[int, str]:
        environment = {"PATH": os.environ["PATH"], "PAIR_ENV": str(self.file),
                       "PAIR_PYTHON": sys.executable}  # fmt: skip
        done = subprocess.run([PAIR / "pair.sh", *words], env=environment, capture_output=True,
                              text=True, timeout=120)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def comes_to(self, word: str) -> bool:
        """Whether a check holds; asked again for a while, as its own patience is 3 s."""
        return any(self.run(word)[0] == 0 for _ in range(CHECKS))


def test_with_the_virtual_address_comes_the_promotion_and_back(tmp_path: Path) -> None:
    with run_nsqd() as a, run_nsqd(f"--follow={a.http}") as b:
        of_a, of_b = (Machine(tmp_path / name, each.http, each.data_path, (a.http, b.http))
                      for name, each in (("a", a), ("b", b)))  # fmt: skip
        publish(a, "t", "1")
        until_copied(a, b, "t")
        assert of_a.comes_to("alive")
        assert of_b.comes_to("alive")
        assert of_a.comes_to("is-primary")
        assert of_b.run("is-primary")[0] == 1
        assert of_a.run("notify", "INSTANCE", "nsqd", "MASTER", "150") == (0, "")
        assert of_b.run("notify", "INSTANCE", "nsqd", "BACKUP", "100") == (0, "")
        a.kill()
        assert [of_a.run("alive")[0], of_a.run("is-primary")[0]] == [1, 1]
        code, said = of_b.run("notify", "INSTANCE", "nsqd", "MASTER", "100")
        assert code == 0, said
        assert f"{b.http} is primary in epoch 2" in said
        assert of_b.run("start", "echo", "nsqd") == (0, "nsqd\n")
        a.start()
        until(a, role="fenced")
        assert of_a.run("alive")[0] == 1, "it needs a new start"
        assert of_a.run("start", "echo", "nsqd") == (0, f"nsqd --follow={b.http}\n")
        code, said = of_a.run("notify", "INSTANCE", "nsqd", "MASTER", "100")
        assert code == 1
        assert "penstock: " in said


def test_the_secret_of_the_nodes_is_in_no_command_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the pair\n")
    program = tmp_path / "penstock"
    program.write_text('#!/bin/sh\necho "$@" / "$PENSTOCK_AUTH_SECRET"\n')
    program.chmod(0o755)
    more = f"PAIR_PENSTOCK={program}\nPAIR_SECRET_FILE={tmp_path / 'secret'}\n"
    nodes = ("127.0.0.1:1", "127.0.0.1:2")
    machine = Machine(tmp_path / "a", nodes[0], tmp_path, nodes, more)
    said = machine.run("notify", "INSTANCE", "nsqd", "MASTER", "100")
    assert said == (0, "promote 127.0.0.1:1 / of the pair\n")


def test_a_slave_is_promoted_over_tls_and_its_master_follows(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    tls = {"tls.server.certPath": files.cert, "tls.server.keyPath": files.key,
           "tls.ha.enable": "true", "tls.ha.trustCertPath": files.ca,
           "tls.ha.need.client.auth": "require"}  # fmt: skip
    more = f"PAIR_CA_FILE={files.ca}\nPAIR_CERT_FILE={files.cert}\nPAIR_KEY_FILE={files.key}\n"
    config = tmp_path / "mqbroker.properties"
    config.write_text("brokerRole=ASYNC_MASTER\n")
    with running_pair(**tls) as pair:
        nodes = (pair.old.copies, pair.new.copies)
        of_old, of_new = (
            Machine(tmp_path / name, each.copies, each.data_path, nodes, more)
            for name, each in (("old", pair.old), ("new", pair.new))
        )
        assert of_old.comes_to("alive")
        assert of_new.comes_to("alive")
        assert of_old.comes_to("is-primary")
        assert of_new.run("is-primary")[0] == 1
        pair.old.kill()
        code, said = of_new.run("notify", "INSTANCE", "mqbroker", "MASTER", "100")
        assert code == 0, said
        assert "is primary in epoch 2" in said
        pair.old.start()
        until(pair.old, role="fenced", fenced_epoch=2)
        assert of_old.run("alive")[0] == 1, "it needs a new start"
        program = tmp_path / "mqbroker"
        program.write_text('#!/bin/sh\ncat "$2"\n')
        program.chmod(0o755)
        for machine, words in ((of_old, f"haMasterAddress={pair.new.copies}"),
                               (of_new, "brokerId=0")):  # fmt: skip
            code, said = machine.run("start", str(program), "-c", str(config))
            assert (code, words in said) == (0, True), said
