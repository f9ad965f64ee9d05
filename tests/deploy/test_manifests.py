"""The Kubernetes manifests against Kubernetes' schemas, our flags, and one another."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import __version__
from penstock.cli import mqbroker, mqnamesrv
from penstock.rocketmq.broker.broker_settings import BrokerSettings
from penstock.rocketmq.namesrv.namesrv_settings import NamesrvSettings
from tests.page_blocks import sample
from tools.deploy.manifests import CHART, KUBERNETES, MANIFESTS, first_line

from .words import has_registry, options_of

WITHOUT, OBJECTS, WITH_TLS, EVERYTHING = (
    list(yaml.safe_load_all(each.read_text())) for each in MANIFESTS
)
"""The objects by default, those with RocketMQ, which are looked at, those with TLS, and those with
something for each value that is empty by default.
"""
WORKLOADS = [each for each in OBJECTS if each["kind"] in ("StatefulSet", "Deployment")]
OF_NSQ = ("nsqd", "nsqlookupd", "nsqadmin")
OF_ROCKETMQ: dict[str, Any] = {
    "mqbroker": (mqbroker.flags, BrokerSettings), "mqnamesrv": (mqnamesrv.flags, NamesrvSettings),
}  # fmt: skip


def name(found: dict[str, Any]) -> str:
    return f"{found['kind']}-{found['metadata']['name']}"


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(found)


def selects(selector: dict[str, str], workload: dict[str, Any]) -> bool:
    return selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_the_manifests_are_those_of_the_chart_as_it_is() -> None:
    for path in MANIFESTS:
        assert path.read_text().startswith(first_line()), "make pages"


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_rocketmq_changes_nothing_else() -> None:
    with_rocketmq = {name(each): each for each in deepcopy(OBJECTS)}
    for each in WITHOUT:
        other = with_rocketmq.pop(name(each))
        if each["metadata"]["name"].endswith("-nsqadmin") and each["kind"] == "Deployment":
            container(other)["args"].pop()
        assert each == other
    assert all("-mq" in each for each in with_rocketmq)


@pytest.mark.parametrize("found", [*OBJECTS, *WITH_TLS, *EVERYTHING], ids=name)
def test_kubernetes_schema_admits_each_object_and_no_field_beside_it(found: dict[str, Any]) -> None:
    from kubernetes_validate import validate  # it takes seconds

    validate(found, KUBERNETES, strict=True)


def test_a_misplaced_field_is_found() -> None:
    from kubernetes_validate import ValidationError, validate

    (workload, *_) = WORKLOADS
    wrong = {**workload, "spec": {**workload["spec"], "terminationGracePeriodSeconds": 1}}
    with pytest.raises(ValidationError):
        validate(wrong, KUBERNETES, strict=True)


def test_the_kinds_of_objects() -> None:
    assert Counter(each["kind"] for each in OBJECTS) == {
        "StatefulSet": 4, "Deployment": 1, "Service": 7, "PodDisruptionBudget": 4, "ConfigMap": 2,
    }  # fmt: skip


def workload_of(program: str) -> dict[str, Any]:
    (found,) = (each for each in WORKLOADS if container(each)["name"] == program)
    return found


def http_address(workload: dict[str, Any], folder: Path) -> str:
    """The address of HTTP that a daemon opens by its flags, or by its properties."""
    found = container(workload)
    if found["name"] in OF_ROCKETMQ:
        return str(settings_of(found["name"], folder).monitoring_address)
    return str(options_of(found["args"]).http_address)


def settings_of(program: str, folder: Path) -> Any:
    """The settings that mqbroker or mqnamesrv takes from its ConfigMap, whose file it is given."""
    workload = workload_of(program)
    (volume,) = workload["spec"]["template"]["spec"]["volumes"]
    (maps,) = (each for each in OBJECTS if each["kind"] == "ConfigMap"
               and each["metadata"]["name"] == volume["configMap"]["name"])  # fmt: skip
    ((file, text),) = maps["data"].items()
    flags, settings = OF_ROCKETMQ[program]
    words = flags().parse_args(container(workload)["args"][1:])
    mounts = {each["name"]: each["mountPath"] for each in container(workload)["volumeMounts"]}
    assert words.configFile == f"{mounts[volume['name']]}/{file}"
    assert words.log_format == "json"
    (folder / file).write_text(text)
    return settings.load_file(str(folder / file))


@pytest.mark.parametrize("workload", WORKLOADS, ids=name)
def test_the_daemon_takes_its_flags_and_is_asked_at_its_port(
    workload: dict[str, Any], tmp_path: Path
) -> None:
    found = container(workload)
    ports = {each["name"]: each["containerPort"] for each in found["ports"]}
    assert http_address(workload, tmp_path).endswith(f":{ports['http']}")
    assert found["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http"}
    for probe in (found["startupProbe"], found["livenessProbe"]):
        assert probe["httpGet"] == {"path": "/live", "port": "http"}, "/ping fails of a full disk"
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
    options = {each: options_of(container(workload_of(each))["args"]) for each in OF_NSQ}
    lookupd = workload_of("nsqlookupd")
    nodes, own = lookupd["spec"]["serviceName"], lookupd["metadata"]["name"]
    hosts = [f"{own}-{number}.{nodes}" for number in range(lookupd["spec"]["replicas"])]
    assert options["nsqd"].lookupd_tcp_addresses == tuple(f"{host}:4160" for host in hosts)
    assert options["nsqadmin"].lookupd_http_addresses == tuple(f"{host}:4161" for host in hosts)


def test_every_broker_and_nsqadmin_know_all_name_servers() -> None:
    named = workload_of("mqnamesrv")
    nodes, own = named["spec"]["serviceName"], named["metadata"]["name"]
    (port,) = (each["containerPort"] for each in container(named)["ports"]
               if each["name"] == "rocketmq")  # fmt: skip
    hosts = [f"{own}-{number}.{nodes}:{port}" for number in range(named["spec"]["replicas"])]
    words = mqbroker.flags().parse_args(container(workload_of("mqbroker"))["args"][1:])
    assert words.namesrvAddr == ";".join(hosts)
    admin = options_of(container(workload_of("nsqadmin"))["args"])
    assert admin.rocketmq_namesrv_addresses == (";".join(hosts),)


def test_what_rocketmqs_daemons_keep_lies_on_a_volume(tmp_path: Path) -> None:
    for program in OF_ROCKETMQ:
        workload = workload_of(program)
        (claim,) = workload["spec"]["volumeClaimTemplates"]
        mounts = {each["name"]: each["mountPath"] for each in container(workload)["volumeMounts"]}
        settings = settings_of(program, tmp_path)
        kept = settings.store_path_root_dir if program == "mqbroker" else settings.kv_config_path
        assert Path(kept).is_relative_to(mounts[claim["metadata"]["name"]])


def test_rocketmqs_ports_are_those_of_its_daemons(tmp_path: Path) -> None:
    for program in OF_ROCKETMQ:
        ports = {each["name"]: each["containerPort"]
                 for each in container(workload_of(program))["ports"]}  # fmt: skip
        assert settings_of(program, tmp_path).listen_port == ports["rocketmq"]


def test_a_stateful_sets_nodes_have_names_before_they_are_ready() -> None:
    services = {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == "Service"}
    for workload in WORKLOADS:
        if workload["kind"] == "StatefulSet":
            spec = services[workload["spec"]["serviceName"]]["spec"]
            assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


def test_the_log_of_nsqd_lies_on_a_volume_that_outlives_its_pod() -> None:
    nsqd = workload_of("nsqd")
    (claim,) = nsqd["spec"]["volumeClaimTemplates"]
    mounts = {each["name"]: each["mountPath"] for each in container(nsqd)["volumeMounts"]}
    data_path = options_of(container(nsqd)["args"]).data_path
    assert mounts == {claim["metadata"]["name"]: data_path}


# --- TLS, and what is empty by default ------------------------------------------------------------


def of_program(objects: list[dict[str, Any]], program: str) -> dict[str, Any]:
    """The pod of a program."""
    (found,) = (
        each["spec"]["template"]["spec"]
        for each in objects
        if each["kind"] in ("StatefulSet", "Deployment") and container(each)["name"] == program
    )
    return dict(found)


def mounted(pod: dict[str, Any], volume: str) -> tuple[dict[str, Any], str]:
    """A volume of a pod, and where its container has it."""
    (source,) = (each for each in pod["volumes"] if each["name"] == volume)
    (only,) = pod["containers"]
    (path,) = (each["mountPath"] for each in only["volumeMounts"] if each["name"] == volume)
    return source, path


def test_nsqd_takes_its_certificate_from_the_secret() -> None:
    pod = of_program(WITH_TLS, "nsqd")
    (only,) = pod["containers"]
    source, path = mounted(pod, "tls")
    assert source["secret"]["secretName"] == "nsqd-tls"
    options = options_of(only["args"])
    assert (options.tls_cert, options.tls_key) == (f"{path}/tls.crt", f"{path}/tls.key")
    assert source["secret"]["defaultMode"] == 0o440, "readable by the group of the pod's volumes"
    port = options.https_address.rpartition(":")[2]
    assert {each["name"]: str(each["containerPort"]) for each in only["ports"]}["https"] == port
    for service in WITH_TLS:
        if service["kind"] == "Service" and "-nsqd" in service["metadata"]["name"]:
            assert "https" in {each["name"] for each in service["spec"]["ports"]}


def test_probes_speak_https_where_plain_http_is_refused() -> None:
    for objects, scheme in ((WITH_TLS, "HTTPS"), (EVERYTHING, None)):
        (only,) = of_program(objects, "nsqd")["containers"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = only[probe]["httpGet"]
            assert (asked["port"], asked.get("scheme")) == (
                ("https", "HTTPS") if scheme else ("http", None)
            )


def test_nsqadmin_knows_the_authority_and_not_the_key() -> None:
    pod = of_program(WITH_TLS, "nsqadmin")
    (only,) = pod["containers"]
    source, path = mounted(pod, "tls")
    (item,) = source["secret"]["items"]
    authority = options_of(only["args"]).http_client_tls_root_ca_file
    assert authority == f"{path}/{item['path']}"


def test_the_certificate_of_the_page_names_every_pod_and_the_service() -> None:
    (nsqd,) = (each for each in WITH_TLS if each["kind"] == "StatefulSet"
               and each["metadata"]["name"].endswith("-nsqd"))  # fmt: skip
    own, nodes = nsqd["metadata"]["name"], nsqd["spec"]["serviceName"]
    pods = [f"{own}-{number}.{nodes}" for number in range(nsqd["spec"]["replicas"])]
    shown = yaml.safe_load(sample("deploy.md", "```yaml"))
    assert shown["spec"]["dnsNames"] == [own, *pods]
    pod = nsqd["spec"]["template"]["spec"]
    assert shown["spec"]["secretName"] == mounted(pod, "tls")[0]["secret"]["secretName"]


@pytest.mark.parametrize("program", [*OF_NSQ, *OF_ROCKETMQ])
def test_each_value_of_a_part_reaches_its_pod(program: str) -> None:
    pod = of_program(EVERYTHING, program)
    (only,) = pod["containers"]
    assert {"name": "TZ", "value": "UTC"} in only["env"]
    source, path = mounted(pod, "more")
    assert (source["secret"], path) == ({"secretName": "more"}, "/etc/more")
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "brokers", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["serviceAccountName"] == "brokers"
