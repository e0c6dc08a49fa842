"""Source distribution -> wheel -> clean virtual environment: nothing is lost on the way.

The tree is copied first: an old list of sources (`*.egg-info`) would hide a missing file.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")

# Run in the clean environment: imports every module, and finds what the command would run.
PROBE = """
import importlib, importlib.metadata, pkgutil
import hetune
print(hetune.__file__)
for module in pkgutil.walk_packages(hetune.__path__, "hetune."):
    importlib.import_module(module.name)
    print(module.name)
[command] = importlib.metadata.distribution("hetune").entry_points.select(group="console_scripts")
print(callable(command.load()))
"""


def package_files() -> set[str]:
    """Every file of the package, relative to `src`."""
    found = set()
    for folder, folders, files in os.walk(ROOT / "src" / "hetune", followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {Path(folder, file).relative_to(ROOT / "src").as_posix() for file in files}
    return found


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    tree = tmp_path_factory.mktemp("tree")
    for link in sorted((ROOT / "src" / "hetune").iterdir()):
        if link.is_symlink():
            shutil.copytree(link.resolve(), tree / link.name, ignore=LEFT_OUT)
    shutil.copytree(ROOT / "src", tree / "src", symlinks=True, ignore=LEFT_OUT)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", cwd=tree)
    [source], [wheel] = (tree / "dist").glob("*.tar.gz"), (tree / "dist").glob("*.whl")
    return source, wheel


def test_links_are_relative_and_stay_inside_the_repository():
    links = [path for path in (ROOT / "src" / "hetune").iterdir() if path.is_symlink()]
    assert links
    for link in links:
        assert link.readlink() == Path("..", "..", link.name)
        assert (link / "__init__.py").is_file()


def test_every_folder_with_modules_is_a_package():
    folders = {Path(file).parent for file in package_files() if file.endswith(".py")}
    assert [str(f) for f in folders if not (ROOT / "src" / f / "__init__.py").is_file()] == []


def test_source_distribution_holds_the_package(archives):
    with tarfile.open(archives[0]) as archive:
        files = {member.name.split("/", 1)[1] for member in archive if member.isfile()}
        assert not any(member.issym() for member in archive)
    inside = {name.removeprefix("src/") for name in files if name.startswith("src/hetune/")}
    assert inside == package_files()
    assert {"README.md", "LICENSE", "pyproject.toml"} <= files


def test_wheel_holds_exactly_the_package(archives):
    with zipfile.ZipFile(archives[1]) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert files == package_files()


def test_wheel_works_in_a_clean_environment(archives, tmp_path):
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", archives[1], cwd=tmp_path)
    # Dependencies are borrowed: a path file's own path files, the editable install's among them,
    # are not read.
    [site] = (tmp_path / "env").glob("lib/python3.*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    where, *modules, command = run(python, "-I", "-c", PROBE, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(tmp_path)
    expected = {
        re.sub(r"(/__init__)?\.py$", "", file).replace("/", ".")
        for file in package_files()
        if file.endswith(".py")
    }
    assert {"hetune", *modules} == expected
    assert command == "True"


def imported_packages(text):
    """The top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def test_imports_of_other_packages_are_declared():
    """What the package imports is installed with it, or guarded by an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for name, extra in project["optional-dependencies"].items():
        if name != "dev":
            requirements += extra
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in requirements]
    parts = [name.split("-") for name in names]
    declared = {"_".join(each[:end]) for each in parts for end in range(1, len(each) + 1)}
    missing = set()
    for file in package_files():
        if file.endswith(".py"):
            text = (ROOT / "src" / file).read_text(encoding="utf-8")
            for name in imported_packages(text):
                if name not in sys.stdlib_module_names | declared | {"hetune"}:
                    missing.add((name, file))
    assert not missing
