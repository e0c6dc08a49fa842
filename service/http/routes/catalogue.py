"""Routes of what can run: the variants of a layer, and the kernels that are compiled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from hetune.service.core.formats.documents import Document
from hetune.service.http.dispatcher import Dispatcher
from hetune.variants.frontend.presets import preset_program
from hetune.variants.plan.variants import variants_of
from hetune.variants.registry import default_registry

Size = Annotated[int, Query(ge=1, le=65536)]


class Variants(Document):
    """Ids of a layer's promoted variants, in a stable order."""

    variants: tuple[str, ...]


class Kernel(Document):
    """A kernel that is compiled; `used` is when it was loaded last, in seconds since 1970."""

    name: str
    key: str
    bytes: int
    used: float


class Kernels(Document):
    """All kernels that are compiled, the one used last first."""

    kernels: tuple[Kernel, ...]


def router(work: Dispatcher) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["variants"])
    target = work.service.engine.target

    @routes.get("/variants")
    async def variants(layer: str, d_in: Size, d_out: Size, heads: Size = 1) -> Variants:
        """What may be asked for as `variants`, of a layer with default options."""

        def found() -> Variants:
            program = preset_program(layer, d_in, d_out, heads)
            return Variants(variants=tuple(variant.id for variant in variants_of(program, target)))

        with work.computing.entered():
            return await work.compute(found)

    @routes.get("/registry")
    def registry() -> Kernels:
        """The kernels that this machine has."""
        return Kernels(
            kernels=tuple(
                Kernel(name=e.name, key=e.key, bytes=e.bytes, used=e.last_used)
                for e in default_registry().entries()
            )
        )

    return routes
