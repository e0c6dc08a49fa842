"""Which facts make a machine another one, and where they are read."""

import json
from dataclasses import fields, replace

import pytest

from hetune.costmodel import fingerprint, system
from hetune.costmodel.fingerprint import Fingerprint, difference, this_machine
from hetune.variants.errors import CompileError

MACHINE = Fingerprint(
    cpu="EPYC",
    cpu_identity="26/2/1",
    cpu_flags="0123456789abcdef",
    instructions=("avx2", "fma"),
    caches=(("L1d", 49152), ("L2", 1 << 20)),
    cores=8,
    cpus=16,
    cpu_quota=None,
    memory_gib=31.2,
    memory_limit_gib=None,
    system="Linux 6.1.0",
    compiler="g++ (Debian 12.2.0-14+deb12u1) 12.2.0",
    compiler_flags=("-O3", "-march=native"),
    gpu=None,
    gpu_driver=None,
    python="3.11.7",
    hetune="0.1.0",
    torch="2.9.0",
    numpy="2.0.0",
)
NOTHING = Fingerprint(
    **{field.name: () if field.type.startswith("tuple") else None for field in fields(Fingerprint)}
)


DECIDES = [
    ({"cpu": "Xeon"}, "cpu: EPYC -> Xeon"),
    ({"cpu_identity": "6/85/7"}, "cpu_identity: 26/2/1 -> 6/85/7"),
    ({"instructions": ("avx2", "avx512f")}, "instructions: -fma +avx512f"),
    ({"instructions": ("fma", "avx2")}, "instructions: another order"),
    ({"caches": (("L1d", 32768),)}, "caches: L1d 49152, L2 1048576 -> L1d 32768"),
    ({"cores": 4}, "cores: 8 -> 4"),
    ({"cpus": 8}, "cpus: 16 -> 8"),
    ({"cpu_quota": 1.5}, "cpu_quota: unknown -> 1.5"),
    ({"memory_gib": 15.6}, "memory_gib: 32.0 -> 16.0"),
    ({"memory_limit_gib": 8.0}, "memory_gib: 32.0 -> 8.0"),
    ({"compiler": "g++ (Ubuntu 13.2) 13.2.0"}, "compiler: gcc 12 -> gcc 13"),
    ({"compiler": "Debian clang version 14.0.6"}, "compiler: gcc 12 -> clang 14"),
    ({"compiler": None}, "compiler: gcc 12 -> unknown"),
    ({"compiler_flags": ("-O3",)}, "compiler_flags: --march=native"),
    ({"gpu": "NVIDIA H100"}, "gpu: unknown -> NVIDIA H100"),
]
DOES_NOT_DECIDE = [
    {"system": "Linux 6.1.99"},
    {"cpu_flags": "another"},
    {"memory_gib": 30.8},
    {"memory_limit_gib": 31.0},
    {"compiler": "g++-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0"},
    {"compiler": "c++ (GCC) 12.3.0"},
    {"gpu_driver": "550.54.15"},
    {"gpu_capability": "9.0"},
    {"gpu_memory": "81559 MiB"},
    {"triton": "3.6.0"},
    {"python": "3.12.1", "hetune": "9.9", "torch": "2.10.0", "numpy": "2.1.0"},
]


@pytest.mark.parametrize(("changes", "line"), DECIDES)
def test_what_decides_speed_makes_another_machine(changes, line):
    other = replace(MACHINE, **changes)
    assert other.digest != MACHINE.digest
    assert difference(MACHINE, other) == [line]


def test_every_fact_either_decides_or_does_not():
    changed = {name for changes, _ in DECIDES for name in changes}
    changed |= {name for changes in DOES_NOT_DECIDE for name in changes}
    assert changed == {field.name for field in fields(Fingerprint)}


@pytest.mark.parametrize("changes", DOES_NOT_DECIDE)
def test_what_changes_on_one_machine_does_not(changes):
    other = replace(MACHINE, **changes)
    assert other.digest == MACHINE.digest
    assert difference(MACHINE, other) == []


@pytest.mark.parametrize("size", [4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])
def test_memory_as_sold_is_one_machine_whatever_the_system_keeps_for_itself(size):
    digests = {replace(MACHINE, memory_gib=size * share).digest for share in (0.96, 0.98, 1.0)}
    assert len(digests) == 1


def test_the_digest_is_the_same_in_every_process_and_release():
    """Another one would part every store and every model from its machine."""
    assert MACHINE.digest == "ea7518e522a46bdb"


@pytest.mark.parametrize("which", ["full", "none", "this"])
def test_json_and_back(which):
    machine = {"full": MACHINE, "none": NOTHING}.get(which) or this_machine()
    assert Fingerprint.from_dict(json.loads(json.dumps(machine.as_dict()))) == machine


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cpu": 3}, r"wrong type of \['cpu'\]"),
        ({"cores": 2.0}, r"wrong type of \['cores'\]"),
        ({"cpus": True}, r"wrong type of \['cpus'\]"),
        ({"memory_gib": "31"}, r"wrong type of \['memory_gib'\]"),
        ({"memory_gib": float("nan")}, r"wrong type of \['memory_gib'\]"),
        ({"memory_gib": -1.0}, r"wrong type of \['memory_gib'\]"),
        ({"cpu_quota": 10**400}, r"wrong type of \['cpu_quota'\]"),
        ({"caches": [["L1d", 1]]}, r"wrong type of \['caches'\]"),
        ({"caches": {"L1d": "1"}}, r"wrong type of \['caches'\]"),
        ({"instructions": "avx2"}, r"wrong type of \['instructions'\]"),
        ({"compiler_flags": None}, r"wrong type of \['compiler_flags'\]"),
        ({"speed": 1}, r"unknown \['speed'\]"),
    ],
)
def test_reading_is_strict(changes, text):
    with pytest.raises(ValueError, match=text):
        Fingerprint.from_dict({**MACHINE.as_dict(), **changes})


def test_reading_misses_nothing():
    facts = MACHINE.as_dict()
    del facts["cpu"]
    with pytest.raises(ValueError, match=r"missing \['cpu'\]"):
        Fingerprint.from_dict(facts)
    with pytest.raises(ValueError, match="not an object"):
        Fingerprint.from_dict(["cpu"])


def test_this_machine_is_remembered():
    assert this_machine() is this_machine()


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_processors_of_two_kinds_are_read(tmp_path):
    x86 = "vendor_id\t: I\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\nstepping\t: 7\n"
    x86 += "flags\t\t: fma avx2\n\nprocessor\t: 1\nmodel name\t: Other\n"
    root = tree(tmp_path / "x86", {"proc/cpuinfo": x86})
    assert system.read_cpu(root) == ("Xeon", "6/85/7", ("avx2", "fma"))
    arm = "BogoMIPS: 50\nFeatures: fp sve asimd\nCPU implementer: 0x41\nCPU architecture: 8\n"
    root = tree(tmp_path / "arm", {"proc/cpuinfo": arm + "CPU variant: 0x1\nCPU part: 0xd40\n"})
    assert system.read_cpu(root) == (None, "0x41/8/0x1/0xd40/?", ("asimd", "fp", "sve"))


def test_caches_are_read(tmp_path):
    folder = "sys/devices/system/cpu/cpu0/cache"
    listed = [
        ("1", "Data", "48K"),
        ("1", "Instruction", "32K"),
        ("3", "Unified", "32M"),
        ("4", "Unified", ""),
    ]
    files = {}
    for number, (level, kind, size) in enumerate(listed):
        files[f"{folder}/index{number}/level"] = level + "\n"
        files[f"{folder}/index{number}/type"] = kind + "\n"
        files[f"{folder}/index{number}/size"] = size + "\n"
    found = system.read_caches(tree(tmp_path, files))
    assert found == (("L1d", 48 << 10), ("L1i", 32 << 10), ("L3", 32 << 20))


OLD = "4:memory:/box/inner\n3:cpu,cpuacct:/box/inner\n1:name=systemd:/\n"
UNLIMITED = str((1 << 63) - 4096)


@pytest.mark.parametrize(
    ("files", "quota", "limit"),
    [
        pytest.param({}, None, None, id="no control groups"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/memory.max": "1073741824\n",
            },
            1.5,
            1 << 30,
            id="version 2, in a container",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/../box/inner\n",
                "sys/fs/cgroup/box/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/box/inner/cpu.max": "max 100000\n",
                "sys/fs/cgroup/box/memory.max": "max\n",
                "sys/fs/cgroup/box/inner/memory.max": "4096\n",
            },
            2.0,
            4096,
            id="version 2, the tightest of the groups around",
        ),
        pytest.param(
            {
                "proc/self/cgroup": OLD,
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/box/inner/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/box/inner/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "8192\n",
                "sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes": UNLIMITED,
            },
            0.5,
            8192,
            id="version 1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "nonsense\n:::\n0::/\n",
                "sys/fs/cgroup/cpu.max": "a lot",
                "sys/fs/cgroup/memory.max": "",
            },
            None,
            None,
            id="nonsense",
        ),
    ],
)
def test_limits_of_containers_are_read(tmp_path, files, quota, limit):
    root = tree(tmp_path, files)
    assert system.read_cpu_quota(root) == quota
    assert system.read_memory_limit(root) == limit


def test_gpus_are_read_from_the_driver_s_pages(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H100\nIRQ: 1\n",
            "proc/driver/nvidia/gpus/0000:02:00.0/information": "Model: \t\t NVIDIA L4\n",
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64  550.54.15  Tue\n",
        },
    )
    assert system.read_gpu(root) == ("NVIDIA H100, NVIDIA L4", "550.54.15")


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (
            "echo 'NVIDIA L4, 550.54.15'; echo 'NVIDIA L4, 550.54.15'",
            ("NVIDIA L4, NVIDIA L4", "550.54.15"),
        ),
        ("echo 'No devices were found'; exit 6", (None, None)),
        ("echo 'No devices were found'", (None, None)),
    ],
)
def test_gpus_are_asked_for_where_there_are_no_such_pages(tmp_path, monkeypatch, script, found):
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.read_gpu(tmp_path) == found


def test_more_is_asked_of_gpus_that_are_there(tmp_path, monkeypatch):
    command = tmp_path / "nvidia-smi"
    answers = "*name*) echo 'NVIDIA H100, 580.1';; *) echo '9.0, 81559 MiB'; echo '9.0, 2 MiB';;"
    command.write_text(f'#!/bin/sh\ncase "$1" in {answers} esac\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.read_gpu_details() == ("9.0, 9.0", "81559 MiB, 2 MiB")
    monkeypatch.setattr(system, "read_gpu", lambda read=system.read_gpu: read(tmp_path))
    found = this_machine.__wrapped__()
    assert (found.gpu, found.gpu_driver, found.gpu_capability) == (
        "NVIDIA H100",
        "580.1",
        "9.0, 9.0",
    )
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert system.read_gpu_details() == (None, None)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo '1980 MHz, 2619 MHz'", (1980.0, 2619.0)),
        ("echo '[N/A], 2619 MHz'", ()),
        ("echo 'No devices were found'; exit 6", ()),
    ],
)
def test_clocks_of_one_gpu_are_asked_for(tmp_path, monkeypatch, script, found):
    command = tmp_path / "nvidia-smi"
    asked = tmp_path / "asked"
    command.write_text(f"#!/bin/sh\necho $* > {asked}\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert system.read_gpu_clocks("GPU-1") == found
    assert asked.read_text().split() == [
        *("--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader", "--id=GPU-1"),
    ]
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert system.read_gpu_clocks("GPU-1") == ()


def test_fingerprints_of_older_versions_are_read():
    facts = MACHINE.as_dict()
    for name in ("gpu_capability", "gpu_memory", "triton"):
        del facts[name]
    assert Fingerprint.from_dict(facts) == MACHINE


def test_an_odd_system_has_no_facts_but_no_errors_either(tmp_path, monkeypatch):
    class Bare:
        @property
        def toolchain(self):
            raise CompileError("there is no C++ compiler")

    def broken(*args, **kwargs):
        raise OSError("no such thing here")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(fingerprint, "default_registry", Bare)
    monkeypatch.setattr(fingerprint, "version", broken_version)
    monkeypatch.setattr(fingerprint.psutil, "virtual_memory", broken)
    monkeypatch.setattr(fingerprint.psutil, "cpu_count", broken)
    monkeypatch.delattr(fingerprint.os, "sched_getaffinity", raising=False)
    for name in ("cpu", "caches", "cpu_quota", "memory_limit", "gpu"):
        read = getattr(system, f"read_{name}")
        monkeypatch.setattr(system, f"read_{name}", lambda read=read: read(tmp_path))
    found = this_machine.__wrapped__()
    assert (found.compiler, found.cores, found.memory_gib, found.torch) == (None,) * 4
    assert (found.caches, found.instructions, found.cpu_flags) == ((), (), None)
    assert Fingerprint.from_dict(found.as_dict()).digest == found.digest


def broken_version(package):
    raise fingerprint.PackageNotFoundError(package)
