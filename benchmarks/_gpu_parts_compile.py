"""Compiles the kernels of `gpu_parts.py` for sm_90, several at once, with or without a GPU.

    python benchmarks/_gpu_parts_compile.py FOLDER [--jobs N]

Each becomes a zip file as `hetune.variants.backends.triton.driver` loads them, under a name that
says what it was made of: those that are there are not made again. CUDA C++ is compiled by nvcc, or
by the NVRTC that is on the path. Neither torch nor hetune is imported, so processes are forked.
"""

import argparse
import ctypes
import functools
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _gpu_parts_candidates import CUDA, Kernel, kernels

_HERE = Path(__file__).resolve().parent
_ARCH = 90
_EPOCH = (1980, 1, 1, 0, 0, 0)
_USED = re.compile(r"REG:(\d+) STACK:(\d+) .*?LOCAL:(\d+)")


def place_of(kernel: Kernel, folder: Path) -> Path:
    """Where a kernel's zip file lies, or will."""
    text = _cuda_text() if kernel.module == "cuda" else _text(f"{kernel.module}.py")
    by = "cuda" if kernel.module == "cuda" else version("triton")
    made_of = hashlib.sha256(f"{by} {_ARCH} {kernel} {text}".encode()).hexdigest()[:16]
    return folder / f"{kernel.label}-{made_of}.zip"


def compile_kernel(kernel: Kernel, folder: Path) -> str:
    """Makes a kernel's zip file; says what is wrong with it, nothing if nothing is."""
    try:
        cubin, how = _cuda(kernel) if kernel.module == "cuda" else _triton(kernel)
        how |= {"types": kernel.types, "global_scratch": 0, "profile_scratch": 0}
        how |= _resources(cubin, how["symbol"])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in (
                (f"{kernel.name}.cubin", cubin),
                ("launch.json", json.dumps({kernel.name: how}).encode()),
            ):
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
        place = place_of(kernel, folder)
        partial = place.with_suffix(f".{os.getpid()}")
        partial.write_bytes(packed.getvalue())
        partial.replace(place)
    except Exception as error:  # what does not compile is a result, as all else here
        return f"{kernel.label}: {type(error).__name__}: {error}"[:600]
    return ""


def asm_of(kernel: Kernel) -> Any:
    """What Triton makes of one of its kernels, stage by stage."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(importlib.import_module(kernel.module), kernel.name)
    types, constants = kernel.types.split(), dict(kernel.constants)
    names = function.arg_names
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, kind in enumerate(types) if kind.startswith("*")
    }
    signature = dict(zip(names, [*types, *["constexpr"] * len(constants)], strict=True))
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": kernel.warps, "num_stages": 2, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", _ARCH, 32), options=options)


def _triton(kernel: Kernel) -> tuple[bytes, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as private:
        os.environ["TRITON_CACHE_DIR"] = private
        done = asm_of(kernel)
        how = {
            "symbol": done.metadata.name,
            "num_warps": done.metadata.num_warps,
            "shared": done.metadata.shared,
        }
        return done.asm["cubin"], how


def _cuda(kernel: Kernel) -> tuple[bytes, dict[str, Any]]:
    return _cubin(), {"symbol": kernel.name, "num_warps": kernel.warps, "shared": 0}


@functools.cache
def _text(name: str) -> str:
    return (_HERE / name).read_text()


@functools.cache
def _cuda_text() -> str:
    return "\n".join(_text(name) for name in CUDA)


@functools.cache
def _cubin() -> bytes:
    """All kernels in CUDA C++."""
    if shutil.which("nvcc") is None:
        return _by_nvrtc(_cuda_text().encode())
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "parts.cu"), Path(folder, "parts.cubin")
        source.write_text(_cuda_text())
        command = ["nvcc", "-cubin", f"-arch=sm_{_ARCH}", "-O3", "-std=c++17", "-o", made, source]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[:2000])
        return made.read_bytes()


def _by_nvrtc(text: bytes) -> bytes:
    library = _nvrtc()
    program = ctypes.c_void_p()
    options = [f"-arch=sm_{_ARCH}".encode(), b"-std=c++17", b"-default-device"]
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"parts.cu", 0, None, None)
    given = (ctypes.c_char_p * len(options))(*options)
    status = library.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    if status:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        said = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, said)
        raise RuntimeError(said.value.decode()[:2000])
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, made)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return made.raw


def _nvrtc() -> Any:
    for folder in sys.path:
        for found in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so*")):
            return ctypes.CDLL(str(found))
    return ctypes.CDLL("libnvrtc.so")


def _resources(cubin: bytes, symbol: str) -> dict[str, int]:
    """Registers of a thread, and bytes of its own memory: what was spilled."""
    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [program if program.is_file() else "cuobjdump", "-res-usage", file.name]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return {}
    after = said.partition(f"Function {symbol}:")[2]
    found = _USED.search(after)
    if found is None:
        return {}
    registers, stack, local = map(int, found.groups())
    return {"registers": registers, "stack": stack, "local": local}


def main(arguments: list[str] | None = None) -> int:
    """Compiles what is missing; prints what failed, and returns 1 if anything did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    missing = [kernel for kernel in kernels() if not place_of(kernel, given.folder).is_file()]
    if any(kernel.module == "cuda" for kernel in missing):
        try:
            _cubin()  # once, before there are several processes
        except Exception as error:
            print(f"cuda: {error}")
            missing = [kernel for kernel in missing if kernel.module != "cuda"]
    context = multiprocessing.get_context("fork")
    with context.Pool(given.jobs, maxtasksperchild=8) as pool:
        work = functools.partial(compile_kernel, folder=given.folder)
        said = [each for each in pool.imap_unordered(work, missing) if each]
    print(f"{len(missing) - len(said)} kernels compiled, {len(said)} failed, in {given.folder}")
    print("\n".join(said))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
