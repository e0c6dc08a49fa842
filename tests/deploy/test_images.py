"""Dockerfile, entrypoint, compose: what they name is there, and nothing is open without need."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib

import pytest

import hetune
from hetune.service.http.route_scopes import is_public

from ._files import DEPLOY, OWN, PINNED, ROOT, compose, dockerfile, load, stages, whole
from ._hetune import check_command, variables

TARGETS = ["cpu", "cuda"]
SERVICES = compose()["services"]
TAG = f"{OWN}:{hetune.__version__}"
OURS = ["hetune", "hetune-gpu", "worker"]


# The image.


def test_images_that_are_built_upon_are_pinned():
    arguments = dict(rest.split("=", 1) for kind, rest in dockerfile() if kind == "ARG")
    for name, ((_, base), *_) in stages().items():
        if base not in stages():
            pinned = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base)
            assert PINNED.fullmatch(pinned), (name, pinned)
    for _, rest in dockerfile():
        for stage in re.findall(r"--from=(\S+)", rest):
            assert stage in stages(), rest


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_runs_as_nobody_s_user_and_is_told_how_it_is(target):
    found = whole(target)
    [user] = [rest for kind, rest in found if kind == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    after = found[[kind for kind, _ in found].index("USER") :]
    assert not [rest for kind, rest in after if kind == "RUN"]
    [check] = [rest for kind, rest in found if kind == "HEALTHCHECK"]
    path = re.search(r"http://127\.0\.0\.1:8000(/[\w/]+)", check)[1]
    assert is_public("GET", path)
    assert ("EXPOSE", "8000") in found
    assert ("VOLUME", "/data") in found
    installed = " ".join(rest for kind, rest in found if kind == "RUN")
    assert re.search(r"apt-get install .*\bg\+\+", installed)
    for kind, rest in found:
        if kind == "ENV":
            for name, value in (part.split("=", 1) for part in shlex.split(rest)):
                if name.startswith("HETUNE_"):
                    assert name in variables()
                    assert value.startswith("/data/")


@pytest.mark.parametrize("target", TARGETS)
def test_what_an_image_runs_is_a_command_of_hetune_s(target):
    [entry] = [json.loads(rest) for kind, rest in whole(target) if kind == "ENTRYPOINT"]
    copied = [rest.split() for kind, rest in whole(target) if kind == "COPY"]
    assert entry == ["hetune-entrypoint"]
    assert ["--chmod=0755", "deploy/entrypoint", f"/usr/local/bin/{entry[0]}"] in copied
    commands = [json.loads(rest) for kind, rest in whole(target) if kind == "CMD"]
    check_command(commands[-1])
    assert ("--device" in commands[-1]) == (target == "cuda")


def ignored(path: str) -> bool:
    """As BuildKit decides for what the file names: the last pattern that fits counts."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    found = False
    for line in lines:
        pattern = line.lstrip("!")
        if line and not line.startswith("#"):
            fits = pattern == "*" or path == pattern or path.startswith(f"{pattern}/")
            found = not line.startswith("!") if fits else found
    return found


def test_what_is_copied_is_there_and_not_ignored():
    sources = [
        source
        for kind, rest in dockerfile()
        if kind == "COPY" and "--from=" not in rest
        for source in [part for part in rest.split() if not part.startswith("--")][:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    assert all(map(ignored, ("tests", ".git", "deploy/secrets/api_key")))


def test_all_that_the_package_is_made_of_is_copied():
    copied = {rest.split()[0] for kind, rest in stages()["wheel"] if kind == "COPY"}
    links = {path.readlink().name for path in (ROOT / "src/hetune").iterdir() if path.is_symlink()}
    assert links <= copied


def test_packages_are_extras_of_ours():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"\$\{wheel\}\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert len(named) == len(TARGETS)
    for extras in named:
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


# The entrypoint, which is run.


def start(tmp_path, *arguments, **variables):
    """Runs the entrypoint with a `hetune` that tells what it is given."""
    program = tmp_path / "hetune"
    program.write_text('#!/bin/sh\necho "$@"\nenv\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | variables
    return subprocess.run(
        [DEPLOY / "entrypoint", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_secrets_come_from_files(tmp_path):
    (tmp_path / "key").write_text("se same $(false)\n", encoding="utf-8")
    (tmp_path / "word").write_text("open", encoding="utf-8")
    files = {"HETUNE_API_KEY_FILE": f"{tmp_path}/key", "PGPASSWORD_FILE": f"{tmp_path}/word"}
    found = start(tmp_path, "serve", "--log", "json", **files)
    assert found.returncode == 0, found.stderr
    first, *rest = found.stdout.splitlines()
    assert first == "serve --log json"
    assert {"HETUNE_API_KEY=se same $(false)", "PGPASSWORD=open"} <= set(rest)
    assert not [line for line in rest if "_FILE=" in line]


def test_without_files_nothing_changes(tmp_path):
    found = start(tmp_path, "worker", HETUNE_API_KEY="sesame")
    assert "HETUNE_API_KEY=sesame" in found.stdout.splitlines()
    assert "PGPASSWORD" not in found.stdout


@pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
def test_a_secret_that_is_not_there_stops_it(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_text(content, encoding="utf-8")
    found = start(tmp_path, "serve", HETUNE_API_KEY_FILE=f"{tmp_path}/key")
    assert found.returncode != 0
    assert found.stdout == ""
    assert str(tmp_path / "key") in found.stderr


# Compose.


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_s_image_is_pinned(name):
    image = SERVICES[name]["image"]
    assert PINNED.fullmatch(image)
    target = SERVICES[name].get("build", {}).get("target")
    assert image == {None: image, "cpu": TAG, "cuda": f"{TAG}-cuda"}[target]
    assert (target is not None) == image.startswith(OWN)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_open_to_this_machine_alone(name):
    service = SERVICES[name]
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    assert "network_mode" not in service
    assert set(service["networks"]) <= set(compose()["networks"])
    if name in OURS:
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]
        assert service["build"]["target"] in stages()
        assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_the_database_is_on_no_network_that_leads_out():
    assert SERVICES["postgres"]["networks"] == ["database"]
    assert compose()["networks"]["database"] == {"internal": True}
    assert "ports" not in SERVICES["postgres"]


def test_secrets_are_files_that_are_not_in_the_repository():
    secrets = compose()["secrets"]
    used = {name for service in SERVICES.values() for name in service.get("secrets", ())}
    assert used == set(secrets)
    ignored = (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()
    for secret in secrets.values():
        assert secret["file"].startswith("./deploy/secrets/")
        assert "secrets/" in ignored
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|KEY|TOKEN", variable):
                assert variable.endswith("_FILE"), variable
                given = value.removeprefix("/run/secrets/")
                assert given in service["secrets"], (name, variable)


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_mounts_and_waits_for_is_there(name):
    service = SERVICES[name]
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (ROOT / source).exists(), volume
        else:
            assert source in compose()["volumes"], volume
    assert set(service.get("depends_on", ())) <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_our_services_have_commands_and_variables_that_there_are(name):
    defaults = [re.sub(r"\$\{\w+:-(.*)\}", r"\1", part) for part in SERVICES[name]["command"]]
    check_command(defaults)
    for variable in SERVICES[name]["environment"]:
        if variable.startswith("HETUNE_"):
            assert variable in variables(), variable


def test_every_variable_of_compose_has_a_default_and_is_in_the_documents():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    for variable in re.findall(r"\$\{?(\w+)[^}]*\}?", text):
        assert f"${{{variable}:-" in text
        assert f"`{variable}`" in page, variable


def test_the_service_on_a_gpu_takes_the_place_of_the_other():
    found, other = SERVICES["hetune-gpu"], SERVICES["hetune"]
    assert found["profiles"] == ["gpu"]
    assert found["environment"] == other["environment"] | {"HETUNE_DEVICE": "cuda"}
    assert found["networks"]["front"]["aliases"] == ["hetune"]
    changed = {name for name in found if found[name] != other.get(name)}
    assert changed == {"profiles", "image", "build", "environment", "networks", "deploy"}
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert "docker compose --profile gpu up --scale hetune=0" in page


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_compose_itself_reads_the_file():
    command = ("docker-compose", "--profile", "gpu", "--profile", "worker", "config", "--quiet")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


# What Prometheus and Grafana are told.


def test_prometheus_reads_the_service_s_metrics_with_its_key():
    [found] = load(DEPLOY / "prometheus/prometheus.yml")
    [job] = found["scrape_configs"]
    [[target]] = [part["targets"] for part in job["static_configs"]]
    name, port = target.split(":")
    assert name in SERVICES
    assert port == SERVICES[name]["ports"][0].rsplit(":", 1)[1]
    assert job["metrics_path"] == "/metrics"
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert secret in SERVICES["prometheus"]["secrets"]
    assert all((DEPLOY / "prometheus" / name).is_file() for name in found["rule_files"])


def test_grafana_finds_prometheus_and_the_dashboard():
    [sources] = load(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")
    [source] = sources["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert SERVICES["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]
    [boards] = load(DEPLOY / "grafana/provisioning/dashboards/hetune.yml")
    path = boards["providers"][0]["options"]["path"]
    mounts = [volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"]]
    assert ["./deploy/grafana/hetune.json", f"{path}/hetune.json"] in mounts
    assert ["./deploy/grafana/provisioning", "/etc/grafana/provisioning"] in mounts
