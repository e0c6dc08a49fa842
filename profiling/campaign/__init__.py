"""Campaigns: declared in a file, read strictly, and turned into problems and their units."""

from hetune.profiling.campaign.campaign import Campaign, Sample, each_unit, problems, units
from hetune.profiling.campaign.estimate import units_seconds
from hetune.profiling.campaign.read import PRESETS, load, parse

__all__ = [
    "PRESETS",
    "Campaign",
    "Sample",
    "each_unit",
    "load",
    "parse",
    "problems",
    "units",
    "units_seconds",
]
