"""The files for a primary and its follower: how they are started, watched and promoted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from penstock.testing.daemons import Daemon, run_nsqd
from tests.copies import publish, until, until_copied
from tests.debian import needed

from .manifests import KUBERNETES
from .pairs import PAIR, ApiServer, loaded
from .test_leases import api
from .words import options_of

__all__ = ["api"]

OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((PAIR / "kubernetes.yaml").read_text()))
BIN = Path(sys.executable).parent


def name(found: dict[str, Any]) -> str:
    return f"{found['kind']}-{found['metadata']['name']}"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in OBJECTS if each["kind"] == kind]


@pytest.mark.parametrize("found", OBJECTS, ids=name)
def test_kubernetes_schema_admits_each_object(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_the_pods_take_their_flags_and_their_names_are_those_of_the_pair() -> None:
    [workload] = of_kind("StatefulSet")
    spec = workload["spec"]["template"]["spec"]
    nsqd, lease = spec["containers"]
    options = options_of(nsqd["args"])
    assert options.promote_before_hook == f"python {lease['command'][1]} take"
    environment = {each["name"]: each.get("value", "") for each in nsqd["env"]}
    assert environment["PAIR_DATA_PATH"] == options.data_path
    own, nodes = environment["PAIR_ADDRESS"], environment["PAIR_NODES"].split()
    set_name = workload["metadata"]["name"]
    assert nodes == [own.replace("$(POD_NAME)", f"{set_name}-{number}") for number in range(2)]
    assert own == f"{options.broadcast_address}:4151"
    assert lease["env"] == nsqd["env"]
    assert nsqd["readinessProbe"]["httpGet"]["path"] == "/ready", "a follower is not"
    scripts = {Path(each["command"][1]).name for each in (nsqd, lease)}
    config = yaml.safe_load((PAIR / "kustomization.yaml").read_text())
    [generated] = config["configMapGenerator"]
    assert set(generated["files"]) == scripts
    assert config["resources"] == ["kubernetes.yaml"]
    assert spec["volumes"][0]["configMap"]["name"] == generated["name"]


def test_the_service_account_may_read_make_and_change_its_lease_alone() -> None:
    [workload], [role], [binding] = of_kind("StatefulSet"), of_kind("Role"), of_kind("RoleBinding")
    lease = workload["spec"]["template"]["spec"]["containers"][1]
    environment = {each["name"]: each.get("value") for each in lease["env"]}
    assert [(each["verbs"], each.get("resourceNames")) for each in role["rules"]] == [
        (["create"], None), (["get", "update"], [environment["PAIR_LEASE"]]),
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


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (PAIR / "nsqd-pair.service").read_text()
    assert "\nNoNewPrivileges=yes\n" in text
    assert "EnvironmentFile=/etc/penstock/pair.env\n" in text
    program = needed("systemd-analyze", "systemd")
    unit = tmp_path / "nsqd-pair.service"
    unit.write_text(text.replace("/opt/penstock/bin/", f"{BIN}/"))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_keepalived_calls_what_the_script_knows() -> None:
    text = (PAIR / "keepalived.conf").read_text()
    called = re.findall(r'"/usr/local/lib/penstock/pair\.sh ([\w-]+)"', text)
    assert called == ["alive", "is-primary", "notify"]
    assert text.count("{") == text.count("}")
    assert set(re.findall(r"^vrrp_script (\w+)", text, re.MULTILINE)) == set(
        re.search(r"track_script {([^}]*)}", text)[1].split()  # type: ignore[index]
    )


def test_a_node_that_was_never_copied_asks_before_it_is_primary(
    tmp_path: Path, api: ApiServer
) -> None:
    pair, lease = loaded("pair"), loaded("lease_kubernetes")
    sys.modules["lease_kubernetes"] = lease
    nodes = ["127.0.0.1:1", "127.0.0.1:2"]
    try:
        assert pair.flags(nodes[0], nodes, tmp_path) == []
        assert pair.flags(nodes[1], nodes, tmp_path) == ["--follow=127.0.0.1:1"]
        lease.take(lease.Api(), nodes[1], 2)
        assert pair.flags(nodes[0], nodes, tmp_path) == ["--follow=127.0.0.1:2"], "a new disk"
        for role, flags in (("primary", []), ("fenced", ["--follow=127.0.0.1:2"])):
            (tmp_path / "replication.json").write_text(json.dumps({"role": role}))
            assert pair.flags(nodes[0], nodes, tmp_path) == flags
    finally:
        del sys.modules["lease_kubernetes"]


class Machine:
    """A node of a pair with the environment of its unit, and keepalived's calls."""

    def __init__(self, folder: Path, own: Daemon, nodes: list[Daemon]) -> None:
        folder.mkdir()
        self.file = folder / "pair.env"
        addresses = " ".join(each.http for each in nodes)
        self.file.write_text(
            f'PAIR_NODES="{addresses}"\nPAIR_ADDRESS={own.http}\nPAIR_NODE={own.http}\n'
            f"PAIR_DATA_PATH={own.data_path}\nPAIR_PENSTOCK={BIN / 'penstock'}\n"
        )

    def run(self, *words: str) -> tuple[int, str]:
        environment = {"PATH": os.environ["PATH"], "PAIR_ENV": str(self.file),
                       "PAIR_PYTHON": sys.executable}  # fmt: skip
        done = subprocess.run([PAIR / "pair.sh", *words], env=environment, capture_output=True,
                              text=True, timeout=120)  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def test_with_the_virtual_address_comes_the_promotion_and_back(tmp_path: Path) -> None:
    hook = f"--promote-before-hook={PAIR / 'lease-file.sh'} {tmp_path / 'lease'}"
    with run_nsqd(hook) as a, run_nsqd(f"--follow={a.http}", hook) as b:
        nodes = [a, b]
        of_a, of_b = Machine(tmp_path / "a", a, nodes), Machine(tmp_path / "b", b, nodes)
        publish(a, "t", "1")
        until_copied(a, b, "t")
        assert [each.run("alive")[0] for each in (of_a, of_b)] == [0, 0]
        assert [each.run("is-primary")[0] for each in (of_a, of_b)] == [0, 1]
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
