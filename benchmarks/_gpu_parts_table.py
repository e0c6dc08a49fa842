"""What the results of `gpu_parts.py` say, and whether CUDA C++ is worth a printer of its own."""

from collections.abc import Mapping
from typing import Any

ENOUGH, WORTH_IT = 0.70, 0.80
"""Shares of the bound: below the first in Triton, where CUDA C++ has the second, decides."""
_KINDS = ("triton", "cuda", "hetune", "cusparse")


def best_of(unit: Mapping[str, Any]) -> dict[str, tuple[str, float, float]]:
    """The fastest candidate of each kind: its name, median milliseconds, share of the bound."""
    found: dict[str, tuple[str, float, float]] = {}
    for name, each in unit["candidates"].items():
        kind = next((kind for kind in _KINDS if name.startswith(kind)), "triton")
        ms = each["median_ms"]
        if kind not in found or ms < found[kind][1]:
            found[kind] = name, ms, each["share"]
    return found


def lines(units: Mapping[str, Any]) -> list[str]:
    """A table of walks, of products, and of starting kernels, with the verdict last."""
    said = []
    good = {key: unit for key, unit in units.items() if "failed" not in unit}
    rates = good.get("rates")
    if rates:
        said.append(f"float32 {rates['tflops']:.1f} TFLOP/s, copy {rates['copy_gb_s']:.0f} GB/s")
    walks = {key: unit for key, unit in good.items() if key.startswith(("sum", "softmax"))}
    if walks:
        said.append(f"{'walk':24} {'bound':>14}  best of each kind, ms (share of bound)")
    for key, unit in walks.items():
        name, bound = max(unit["bounds_ms"].items(), key=lambda item: item[1])
        best = "; ".join(
            f"{name} {ms:.3f} ({share:.0%})" for name, ms, share in best_of(unit).values()
        )
        said.append(f"{key:24} {name:>5} {bound:8.3f}  {best}")
        said += _refused(unit)
    for key, unit in good.items():
        if key.startswith("product"):
            said.append(
                f"{key}: {unit['rows']} rows, picking them {unit['bounds_ms']['pick']:.3f} ms"
            )
            ranked = sorted(unit["candidates"].items(), key=lambda item: item[1]["median_ms"])
            said += [
                f"  {name:24} {each['median_ms']:.3f} ms ({each['share']:.0%}), "
                f"error {each['error'].get('one sign', 0.0):.1e} where all is positive"
                for name, each in ranked
            ]
            said += _refused(unit)
    if "host" in good:
        said.append(f"{good['host']['kernels']} kernels that do nothing, us: host, done, card")
        for name, way in good["host"]["ways"].items():
            told = way.get("failed") or "  ".join(f"{value:8.1f}" for value in way.values())
            said.append(f"  {name:24} {told}")
    return [*said, *_verdict(walks)]


def _refused(unit: Mapping[str, Any]) -> list[str]:
    return [f"  not {name}: {why[:160]}" for name, why in unit["refused"].items()]


def _verdict(walks: Mapping[str, Any]) -> list[str]:
    """Whether anywhere Triton has less than enough where CUDA C++ has what is worth it."""
    shares = {
        key: {kind: share for kind, (_, _, share) in best_of(unit).items()}
        for key, unit in walks.items()
    }
    compared = {key: s for key, s in shares.items() if {"triton", "cuda"} <= set(s)}
    if not compared:
        return []
    lost = [key for key, s in compared.items() if s["triton"] < ENOUGH and s["cuda"] >= WORTH_IT]
    rule = f"Triton < {ENOUGH:.0%} where CUDA >= {WORTH_IT:.0%}"
    where = ", ".join(lost) if lost else "nowhere"
    return [f"verdict: {rule}: {where} of {len(compared)} walks"]
