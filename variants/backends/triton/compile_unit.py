"""Compiles a generated module for a GPU that need not be there: a script of its own.

``python compile_unit.py MODULE.py CAPABILITY OUT``: run in a process of its own, for Triton has to
be imported without ``TRITON_INTERPRET``. It imports Triton and nothing of hetune, which takes a
third of a second. OUT is a zip file with a cubin for each kernel and `launch.json`: for each kernel
its name in the cubin, its warps, its shared memory, its types, its registers, and the bytes of a
thread's stack, where registers are spilled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)


def main(module: str, capability: str, out: str) -> None:
    """Compiles every kernel that the module's ``LAUNCH`` lists."""
    import triton

    spec = spec_from_file_location("hetune_kernels", module)
    assert spec is not None
    assert spec.loader is not None
    kernels = module_from_spec(spec)
    sys.modules[spec.name] = kernels
    spec.loader.exec_module(kernels)
    described: dict[str, Any] = {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, launch in kernels.LAUNCH.items():
            compiled = compile_kernel(getattr(kernels, name), launch, int(capability))
            metadata = compiled.metadata
            described[name] = {
                "symbol": metadata.name,
                "types": launch["types"],
                "num_warps": metadata.num_warps,
                "shared": metadata.shared,
                "global_scratch": getattr(metadata, "global_scratch_size", 0),
                "profile_scratch": getattr(metadata, "profile_scratch_size", 0),
            }
            described[name] |= usage(compiled.asm["cubin"])
            _write(archive, f"{name}.cubin", compiled.asm["cubin"])
        described = {"triton": triton.__version__, "capability": int(capability), **described}
        _write(archive, "launch.json", json.dumps(described, indent=1).encode())


def compile_kernel(kernel: Any, launch: dict[str, Any], capability: int) -> Any:
    """A kernel as Triton compiles it, with every step's text.

    Args:
        kernel: Of a generated module.
        launch: What the module's ``LAUNCH`` says of it.
        capability: Of the GPU, times ten.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = launch["types"].split()
    # torch allocates at multiples of 512 bytes, and buffers in an arena lie at multiples of 64.
    aligned = {
        (place,): [["tt.divisibility", 16]] for place, kind in enumerate(types) if kind[0] == "*"
    }
    source = ASTSource(
        fn=kernel,
        signature=dict(zip(kernel.arg_names, types, strict=True)),
        constexprs={},
        attrs=aligned,
    )
    options = {
        "num_warps": launch["num_warps"],
        "num_stages": launch["num_stages"],
        "enable_fp_fusion": True,
    }
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def usage(cubin: bytes) -> dict[str, int]:
    """Registers of a kernel, and bytes of its stack: what did not fit into them."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        said = subprocess.run(  # noqa: S603
            command, check=True, capture_output=True, text=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return {"registers": int(found[1]), "stack": int(found[2])}


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """An entry with no date: the same kernels are the same bytes."""
    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(*sys.argv[1:])
