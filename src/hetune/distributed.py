"""Layers on graphs by a cluster."""

from hetune.variants.partition.on_ray import run

__all__ = ["run"]
