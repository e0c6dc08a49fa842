"""Layers on graphs by ranges of nodes: larger than memory, or on several machines."""
