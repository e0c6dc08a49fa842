"""Fixtures shared by all tests."""

import atexit
import gc
import math
import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from hetune.variants.registry import Registry

TESTS = Path(__file__).parent

# Triton looks when it is imported, and PyG imports it.
os.environ["TRITON_INTERPRET"] = "1"
# Processes of tests have more threads than there are cores: one that has to wait for others must
# not keep a core from them. OpenMP looks when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A thousand kernels are compiled and linked: -Og takes a third as long, and gold half as long.
# Options are part of a kernel's key. `_kernels_of_users` has those that users have.
GOLD = "g++ -fuse-ld=gold"
QUICK = shlex.join([str(TESTS / "quick_g++"), "-Og", "-fuse-ld=gold"])
if not os.environ.get("CXX") and shutil.which("g++") and shutil.which("ld.gold"):
    os.environ.setdefault("HETUNE_CXX", QUICK)

OF_NUMBERS = {"conformance", "backends", "test_precision"}
"""Folders, and a file, of tests whose kernels are compiled with the options that users have."""
OF_LAYERS = {"test_other_layers", "test_training_steps"}
"""Files in these folders that test layers, whose kernels are compiled quickly all the same."""

# On a busy machine any example may take long.
settings.register_profile("hetune", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hetune")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real graphs. Without any the test is skipped; CI has to have those it names."""
    return real_graphs()


def real_graphs() -> Path:
    """What `data_dir` is."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HETUNE_DATA", beside))
    if not (folder / "graphs").is_dir():
        is_meant = "HETUNE_DATA" in os.environ or folder.is_dir()
        leave = pytest.fail if os.environ.get("CI") and is_meant else pytest.skip
        leave(f"no real graphs in {folder}: set HETUNE_DATA, or put them in {beside}")
    return folder


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """URL of an empty part of a PostgreSQL server's database; skipped where there is no server."""
    server = os.environ.get("HETUNE_TEST_POSTGRESQL")
    if not server:
        pytest.skip("no PostgreSQL server: set HETUNE_TEST_POSTGRESQL to the URL of a database")
    from sqlalchemy import create_engine, make_url

    name = f"hetune_test_{uuid.uuid4().hex}"
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    private = url.update_query_dict({"options": f"-c search_path={name}"})
    yield private.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
    engine.dispose()


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled kernels go to HETUNE_CACHE if CI sets it, else to a folder of this run."""
    os.environ.setdefault("HETUNE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def _users_registry(_private_cache: None) -> "Registry":
    """Compiles with the options that users have."""
    from hetune.variants.registry import Registry, Toolchain

    with pytest.MonkeyPatch.context() as patch:
        if os.environ["HETUNE_CXX"] == QUICK:
            patch.setenv("HETUNE_CXX", GOLD)
        return Registry(toolchain=Toolchain.detect())


@pytest.fixture(scope="module", autouse=True)
def _kernels_of_users(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of kernels' numbers run the kernels that users have."""
    names = {request.path.stem, *request.path.parts}
    if "HETUNE_CXX" not in os.environ or not OF_NUMBERS & names or OF_LAYERS & names:
        yield
        return
    from hetune.variants.registry import override_default_registry

    with override_default_registry(request.getfixturevalue("_users_registry")):
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user_s(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cost models and measurements of this machine are neither read nor changed, nor waited for."""
    folder = tmp_path_factory.mktemp("user")
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    os.environ["HETUNE_MODELS"] = str(folder / "models")
    os.environ["HETUNE_STORE"] = str(folder / "store.db")


@pytest.fixture(scope="session", autouse=True)
def _stores_are_opened_by_sqlite_alone() -> None:
    """Who opens a file that is a store in use, and closes it, drops the process's locks on it."""
    from hetune.profiling.store import engines

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and engines._open and isinstance(arguments[0], str | Path):
            assert Path(arguments[0]).absolute() not in engines._open, f"{arguments[0]} is in use"

    sys.addaudithook(look)


@pytest.fixture(scope="session", autouse=True)
def _a_launch_patches_once() -> Iterator[None]:
    """Triton's interpreter patches its language anew for each call of a function in a kernel."""
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None:
        yield
        return
    patched: set[int] = set()
    patch_lang = interpreter._patch_lang

    def patch_once(function: Callable[..., object]) -> object:
        module = id(function.__globals__)
        if module in patched:
            return None  # only who launches restores
        patched.add(module)
        scope = patch_lang(function)
        restore = scope.restore
        scope.restore = lambda: (patched.clear(), restore())
        return scope

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", patch_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _whatever_else_runs() -> Iterator[None]:
    """What tests measure counts on a busy machine, too, and runs keep their threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hetune.variants.runtime.layer_runner.SHORT_SECONDS", 0.0)
        patch.setattr("hetune.profiling.store.problems.MOST_DRIFT", math.inf)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-goldens` writes what was made into the golden files; review the diff."""
    parser.addoption("--update-goldens", action="store_true", help="renew golden files")


def pytest_configure(config: pytest.Config) -> None:
    """Each worker collects from another folder on, so that none rewrites asserts again."""
    worker = getattr(config, "workerinput", None)
    if worker and [*map(Path, config.args)] == [TESTS.relative_to(config.rootpath)]:
        folders = sorted(str(path) for path in TESTS.glob("[a-z]*/"))
        first = len(folders) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args = folders[first:] + folders[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers have to run tests in the same order."""
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What thousands of modules hold stays: looking through it for garbage takes half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # modules go at the end, as their extensions expect
        gc.enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Says at once what fails: a run that is cut short does not come to its summary."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if report.failed and not is_worker:
        print(f"\n{report.nodeid} ({report.when})\n{report.longreprtext}", flush=True)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with a file in the folder `goldens` beside the test."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "goldens" / name
        if request.config.getoption("--update-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no {path.name}: run pytest --update-goldens, and review it"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path.name} has changed: run pytest --update-goldens, and review the diff"
        )

    return check
