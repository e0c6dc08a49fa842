"""What runs return: memory for a plan's results, and edges in the graph's own order."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hetune.variants.errors import InputError
from hetune.variants.graph.lazy_tensors import is_lazy
from hetune.variants.program.nodes import Space, Type
from hetune.variants.runtime.domain import Domain
from hetune.variants.runtime.plan_facts import StoredResult
from hetune.variants.runtime.plan_inputs import reorder
from hetune.variants.runtime.workspace import Workspace


class Results:
    """A plan's results on a graph.

    Args:
        results: Of the plan that is run.
        domain: The graph.
        workspace: Whose memory results are of; None: of torch's allocator.

    Attributes:
        places: Where launches leave each edge of the graph, int32 [E]; None: where it has them.
    """

    def __init__(
        self, results: tuple[StoredResult, ...], domain: Domain, workspace: Workspace | None
    ) -> None:
        self._kinds = tuple((r.buffer, r.type, domain.buffer_rows(r.type)) for r in results)
        self._stored = tuple(
            torch.Size((rows, *result.stored))
            for result, (_, _, rows) in zip(results, self._kinds, strict=True)
        )
        """Shapes of their buffers, which may have other row shapes."""
        self._device, self._workspace = domain.place, workspace
        has_edges = any(kind.space is Space.EDGE for _, kind, _ in self._kinds)
        self.places = domain.edge_places if has_edges else None

    @property
    def are_reordered(self) -> bool:
        """Whether launches write some of them elsewhere, in another order."""
        return self.places is not None

    def allocate(self, out: Tensor | None, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Memory for the results, [rows, *row shape] each: what was given for one, or new.

        Args:
            out: Of a plan with one result: float32, contiguous, [rows, *row shape].
            inputs: What must not lie in it.

        Raises:
            InputError: What was given does not fit, or overlaps with one of the inputs.
        """
        if out is None:
            return tuple([self._new(kind, rows) for _, kind, rows in self._kinds])
        if len(self._kinds) > 1:
            raise InputError(
                f"out= is for one result, and the layer has {len(self._kinds)}: leave it out"
            )
        _, kind, rows = self._kinds[0]
        if (out.dtype, out.device) != (torch.float32, self._device) or not out.is_contiguous():
            raise InputError(
                f"out must be a contiguous float32 tensor on {self._device}: allocate it so"
            )
        if out.numel() != rows * kind.width:
            raise InputError(
                f"out has shape {tuple(out.shape)} but the result has {rows} rows of {kind.width}:"
                " allocate that many elements"
            )
        if is_lazy(out):
            raise InputError(
                "out is a tensor that torch negates as it reads it, or one without memory: "
                "allocate it with torch.empty"
            )
        for name, given in inputs.items():
            if _overlap(out, given):
                raise InputError(
                    f"out shares memory with {name}, which is read while out is written: give a "
                    "tensor of its own"
                )
        # Kernels write through its address, which autograd does not see.
        torch.autograd.graph.increment_version(out)
        return (out.view(rows, *kind.shape),)

    def _new(self, kind: Type, rows: int) -> Tensor:
        if self._workspace is None:
            return torch.empty(rows, *kind.shape, dtype=torch.float32, device=self._device)
        elements = self._workspace.results.take(rows * kind.width)
        return elements.view(rows, *kind.shape) if kind.shape else elements

    def written(
        self, results: tuple[Tensor, ...], *, keeps_order: bool = False
    ) -> dict[str, Tensor]:
        """The buffers of those that launches write where they are returned.

        Args:
            results: What `allocate` gives.
            keeps_order: Whether rows of edges stay in the index's order.
        """
        return {
            name: rows if rows.shape == shape else rows.view(shape)
            for (name, kind, _), rows, shape in zip(self._kinds, results, self._stored, strict=True)
            if keeps_order or self.places is None or kind.space is not Space.EDGE
        }

    def reorder(self, results: tuple[Tensor, ...], buffers: Mapping[str, Tensor]) -> None:
        """Fills the others from their buffers: rows of edges, in the graph's order."""
        if self.places is None:
            return
        with torch.no_grad():
            for (name, kind, _), rows in zip(self._kinds, results, strict=True):
                if kind.space is Space.EDGE:
                    reorder(buffers[name].view(rows.shape), self.places, rows)


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two contiguous tensors have elements in common."""
    first, second = one.data_ptr(), other.data_ptr()
    return first < second + other.nbytes and second < first + one.nbytes
