"""What the documents say is so: dependencies, links, targets, examples, public names."""

import ast
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import hetune

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def declared() -> set[tuple[str, str]]:
    """Name and version range of every requirement in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        requirements += extra
    found = set()
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(\[.*\])?([^;]*)", requirement)
        assert match, requirement
        if match[1] != "hetune":
            found.add((match[1], match[3].strip()))
    return found


def test_every_dependency_is_explained_and_nothing_else():
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| `")
    ]
    assert all(len(row) >= 4 and all(row) for row in rows)
    assert {(row[0].strip("`"), row[1].strip("`")) for row in rows} == declared()


def anchors(document: Path) -> set[str]:
    """What links to a document's headings end in."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            path = document.parent / name if name else document
            assert path.exists(), target
            assert not anchor or anchor in anchors(path), target


def with_options(name: str) -> str:
    """A benchmark's text, with those of what it has options from."""
    text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    shared = re.findall(r"^from (peers|_command_line) import", text, re.M)
    return "".join([text, *map(with_options, shared)])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_benchmarks_that_documents_name_take_these_options(document):
    """Those of other commits are given as `git show COMMIT:benchmarks/NAME.py`."""
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, arguments in re.findall(r"(?<!:)benchmarks/(\w+)\.py([^`\n]*)", text):
        script = with_options(name)
        for option in re.findall(r"(?<!\S)--[a-z-]+", arguments):
            assert f'"{option}"' in script, (name, option)


def test_make_targets_in_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = re.findall(r"(?:^ {4}|`)make ([a-z-]+)", text, flags=re.MULTILINE)
        assert set(named) <= targets, document


def examples(document: Path) -> list[str]:
    """A document's Python examples."""
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("README.md", ("torch_geometric",)),
        ("docs/library.md", ("torch_geometric", "dgl")),
        ("docs/mini-batches.md", ()),
        ("docs/schedules.md", ()),
        ("docs/adding-a-layer.md", ()),
    ],
)
def test_examples_run(name, needs, tmp_path):
    """One after the other, in one module: a later example may use an earlier one's names."""
    for package in needs:
        pytest.importorskip(package, reason=f"no {package}: pip install it")
    blocks = [block for block in examples(ROOT / name) if "client" not in block.lower()]
    assert blocks
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(script))
    if "out" in names:
        assert names["out"].shape[0] == names.get("sampled", names["graph"]).num_nodes


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_examples_import_is_there(document):
    """Also in those that need a service or a store, which do not run here."""
    for block in examples(document):
        nodes = ast.walk(ast.parse(block))
        found = (n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom))
        lines = [line for line in map(ast.unparse, found) if line.split()[1].startswith("hetune")]
        exec("\n".join(lines), {})


def test_every_public_name_is_documented():
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    public = set(hetune.__all__) - {"__version__"}
    assert {name for name in public if not re.search(rf"\b{name}\b", text)} == set()


def test_decisions_are_numbered_and_have_the_same_parts():
    assert [int(path.name[:4]) for path in ADRS] == list(range(1, len(ADRS) + 1))
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path
        assert re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: ", text, re.M), path
        assert re.findall(r"^## (.*)", text, re.M) == ["Context", "Decision", "Consequences"], path


def test_the_index_of_decisions_lists_each_once():
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d+)\. .*\]\((.*)\)$", index, re.M)
    assert sorted((int(number), name) for number, name in listed) == [
        (int(path.name[:4]), path.name) for path in ADRS
    ]


def repository_files() -> list[Path]:
    """Everything that is, or would be, committed."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


# Put together here, so that this file does not hold them.
FORBIDDEN = {
    "unfinished work": ["TO" + "DO", "FIX" + "ME"],
    "a path of one machine": ["/" + "root/", "/" + "work/", "/" + "home/", "/" + "opt/"],
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_repository_holds_no(what):
    found = []
    for path in repository_files():
        if path.suffix in (".png", ".npz", ".gz", ".parquet"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if any(re.search(rf"(?<!\w){re.escape(text)}", line) for text in FORBIDDEN[what]):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found, f"{what}:\n" + "\n".join(found)
