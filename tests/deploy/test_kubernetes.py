"""Manifests: whole, bound to each other, no more rights than needed, and true of the service."""

import shutil
import subprocess

import pytest

import hetune
from hetune.service.http.dispatcher import Dispatcher
from hetune.service.http.route_scopes import is_public
from hetune.service.server.app import routes

from ._files import KUBERNETES, OWN, PINNED, compose, load, objects, pods
from ._hetune import check_command, variables

PODS = pods()
OBJECTS = objects()


def container(name):
    [found] = PODS[name]["spec"]["containers"]
    return found


def fits(selector, labels):
    return selector.items() <= labels.items()


def test_the_list_is_complete():
    [found] = load(KUBERNETES / "kustomization.yaml")
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(found["resources"]) == files
    assert found["namespace"] in {name for kind, name in OBJECTS if kind == "Namespace"}


def test_kustomize_renders_all_of_it():
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: install it to have the manifests rendered")
    command = ["kubectl", "kustomize", KUBERNETES]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert found.stdout.count("\nkind: ") + found.stdout.startswith("kind: ") == len(OBJECTS)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_more_rights_than_it_needs(name):
    pod, own = PODS[name]["spec"], container(name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_s_image_and_command(name):
    own = container(name)
    assert PINNED.fullmatch(own["image"])
    assert own["image"] == f"{OWN}:{hetune.__version__}" == compose()["services"]["hetune"]["image"]
    check_command(own["args"])
    threads = dict(part.split("=") for part in own["args"] if "=" in part).get("--threads")
    assert threads in (None, own["resources"]["limits"]["cpu"])
    assert own["resources"]["limits"] == own["resources"]["requests"]


@pytest.mark.parametrize("name", PODS)
def test_what_a_pod_refers_to_is_there(name):
    pod, own = PODS[name]["spec"], container(name)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in own["volumeMounts"]}
    assert set(mounts) == set(volumes)
    assert {"/data", "/tmp"} <= set(mounts.values())
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            assert ("PersistentVolumeClaim", claim) in OBJECTS
    for source in own["envFrom"]:
        settings = OBJECTS["ConfigMap", source["configMapRef"]["name"]]["data"]
        for variable, value in settings.items():
            assert variable in variables(), variable
            if variable.endswith("_FILE"):
                assert value.startswith(f"{mounts['secrets']}/")


def test_no_secret_is_in_the_manifests():
    assert not [key for key in OBJECTS if key[0] == "Secret"]


def test_probes_ask_routes_that_need_no_key(tmp_path):
    from hetune.costmodel.selection.selector import Selector
    from hetune.service.core.service import Service

    service = Service.open(tmp_path, selector=Selector(), backend="torch")
    known = routes(Dispatcher.of(service)).openapi()["paths"]
    own = container("hetune")
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = own[kind]["httpGet"]
        assert asked["path"] in known
        assert is_public("GET", asked["path"])
        assert asked["port"] in {port["name"] for port in own["ports"]}
    # What is compiled for HETUNE_WARM before the service is ready may take longer than a start.
    for kind in ("startupProbe", "livenessProbe"):
        assert own[kind]["httpGet"]["path"].endswith("live")
    assert own["readinessProbe"]["httpGet"]["path"].endswith("ready")


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("Service", "hetune", ("spec", "selector")),
        ("PodDisruptionBudget", "hetune", ("spec", "selector", "matchLabels")),
        ("NetworkPolicy", "hetune-service", ("spec", "podSelector", "matchLabels")),
    ],
)
def test_what_is_meant_for_the_service_selects_it_alone(kind, name, path):
    selector = OBJECTS[kind, name]
    for key in path:
        selector = selector[key]
    chosen = [pod for pod in PODS if fits(selector, PODS[pod]["metadata"]["labels"])]
    assert chosen == ["hetune"]


def test_nobody_talks_to_pods_that_is_not_named():
    policy = OBJECTS["NetworkPolicy", "hetune"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in policy
    selector = policy["podSelector"]["matchLabels"]
    assert all(fits(selector, pod["metadata"]["labels"]) for pod in PODS.values())
    [rule] = OBJECTS["NetworkPolicy", "hetune-service"]["spec"]["ingress"]
    ports = {port["port"] for port in rule["ports"]}
    own = {port["containerPort"] for port in container("hetune")["ports"]}
    served = {part.removeprefix("--port=") for part in container("hetune")["args"]}
    assert ports == own == {8000}
    assert "8000" in served
    assert [port["targetPort"] for port in OBJECTS["Service", "hetune"]["spec"]["ports"]] == [
        "http"
    ]


@pytest.mark.parametrize("name", PODS)
def test_a_deployment_selects_its_own_pods(name):
    labels = PODS[name]["metadata"]["labels"]
    assert OBJECTS["Deployment", name]["spec"]["selector"]["matchLabels"] == labels


def test_a_node_can_be_drained():
    assert OBJECTS["PodDisruptionBudget", "hetune"]["spec"]["maxUnavailable"] == 1
    assert OBJECTS["Deployment", "hetune"]["spec"]["replicas"] == 1


def test_workers_measure_where_no_service_is():
    affinity = PODS["hetune-worker"]["spec"]["affinity"]["podAntiAffinity"]
    [rule] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    selector = rule["labelSelector"]["matchLabels"]
    assert fits(selector, PODS["hetune"]["metadata"]["labels"])
    assert "--no-worker" in container("hetune")["args"]


def test_a_new_worker_needs_no_node_more():
    assert OBJECTS["Deployment", "hetune-worker"]["spec"]["strategy"] == {"type": "Recreate"}
