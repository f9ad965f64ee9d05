"""The Kubernetes manifests against Kubernetes' schemas, our flags, and one another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import kubernetes_validate
import pytest
import yaml

from .manifests import KUBERNETES, MANIFESTS, first_line
from .words import has_registry, options_of

OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFESTS.read_text()))
WORKLOADS = [each for each in OBJECTS if each["kind"] in ("StatefulSet", "Deployment")]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def name(found: dict[str, Any]) -> str:
    return f"{found['kind']}-{found['metadata']['name']}"


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


def selects(selector: dict[str, str], workload: dict[str, Any]) -> bool:
    return selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_the_manifests_are_those_of_the_chart_as_it_is() -> None:
    assert MANIFESTS.read_text().startswith(first_line()), "make manifests"


@pytest.mark.parametrize("found", OBJECTS, ids=name)
def test_kubernetes_schema_admits_each_object_and_no_field_beside_it(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


def test_a_misplaced_field_is_found() -> None:
    (workload, *_) = WORKLOADS
    wrong = {**workload, "spec": {**workload["spec"], "terminationGracePeriodSeconds": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_kinds_of_objects() -> None:
    assert Counter(each["kind"] for each in OBJECTS) == {
        "StatefulSet": 2, "Deployment": 1, "Service": 5, "PodDisruptionBudget": 2,
    }  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_the_daemon_takes_its_flags_and_is_asked_at_its_port(workload: dict[str, Any]) -> None:
    found = container(workload)
    options = options_of(found["args"])
    ports = {each["name"]: each["containerPort"] for each in found["ports"]}
    assert options.http_address.endswith(f":{ports['http']}")
    assert [found[probe]["httpGet"]["port"] for probe in PROBES] == ["http"] * 3
    assert found["readinessProbe"]["httpGet"]["path"] == "/ready"
    alive = "/info" if found["name"] == "nsqd" else "/ping"
    assert [found[probe]["httpGet"]["path"] for probe in PROBES[:2]] == [alive] * 2
    assert not has_registry(found["image"])


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_the_pod_runs_without_rights(workload: dict[str, Any]) -> None:
    assert workload["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    security = container(workload)["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True


def test_each_service_and_budget_selects_one_workload() -> None:
    for found in OBJECTS:
        if found["kind"] in ("Service", "PodDisruptionBudget"):
            selector = found["spec"]["selector"]
            chosen = [
                each for each in WORKLOADS if selects(selector.get("matchLabels", selector), each)
            ]
            assert len(chosen) == 1, name(found)
    for workload in WORKLOADS:
        assert selects(workload["spec"]["selector"]["matchLabels"], workload)


def test_every_nsqd_registers_with_each_nsqlookupd_and_nsqadmin_asks_them_all() -> None:
    options = {container(each)["name"]: options_of(container(each)["args"]) for each in WORKLOADS}
    (lookupd,) = [each for each in WORKLOADS if container(each)["name"] == "nsqlookupd"]
    nodes, own = lookupd["spec"]["serviceName"], lookupd["metadata"]["name"]
    hosts = [f"{own}-{number}.{nodes}" for number in range(lookupd["spec"]["replicas"])]
    assert options["nsqd"].lookupd_tcp_addresses == tuple(f"{host}:4160" for host in hosts)
    assert options["nsqadmin"].lookupd_http_addresses == tuple(f"{host}:4161" for host in hosts)


def test_a_stateful_sets_nodes_have_names_before_they_are_ready() -> None:
    services = {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == "Service"}
    for workload in WORKLOADS:
        if workload["kind"] == "StatefulSet":
            spec = services[workload["spec"]["serviceName"]]["spec"]
            assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_the_log_of_nsqd_lies_on_a_volume_that_outlives_its_pod() -> None:
    (nsqd,) = [each for each in WORKLOADS if container(each)["name"] == "nsqd"]
    (claim,) = nsqd["spec"]["volumeClaimTemplates"]
    mounts = {each["name"]: each["mountPath"] for each in container(nsqd)["volumeMounts"]}
    data_path = options_of(container(nsqd)["args"]).data_path
    assert mounts == {claim["metadata"]["name"]: data_path}
