"""`docker-compose.yml` and what is in `deploy/`, read as the tools read it that it is for."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*")
OWN = "hetune"


def load(path: Path):
    """The documents of a YAML file, in which no key may stand twice."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), _Strict))


class _Strict(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value if key.value != "<<"]
        assert len(set(keys)) == len(keys), f"{node.start_mark}: a key stands twice"
        return super().construct_mapping(node, deep)


def compose():
    """The services of docker-compose.yml, and the rest of it."""
    [found] = load(ROOT / "docker-compose.yml")
    return found


def objects():
    """What Kubernetes is given, by kind and name."""
    found = {}
    for path in KUBERNETES.glob("*.yaml"):
        for document in load(path):
            if document["kind"] != "Kustomization":
                found[document["kind"], document["metadata"]["name"]] = document
    return found


def pods():
    """Templates of pods, by the name of what makes them."""
    return {
        name: found["spec"]["template"]
        for (kind, name), found in objects().items()
        if kind == "Deployment"
    }


def dockerfile() -> Iterator[tuple[str, str]]:
    """Instructions and arguments, with lines that go on in the next put together."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, rest = line.strip().partition(" ")
            yield instruction, re.sub(r"\s+", " ", rest).strip()


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions by stage; those before the first are left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    for instruction, rest in dockerfile():
        if instruction == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            found[name] = [("FROM", base)]
        elif found:
            found[name].append((instruction, rest))
    return found


def whole(name: str) -> list[tuple[str, str]]:
    """Instructions of a stage and of those that it is made from."""
    own = stages()[name]
    base = own[0][1]
    return (whole(base) if base in stages() else []) + own
