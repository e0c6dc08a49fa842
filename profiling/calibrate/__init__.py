"""Adapting the roofline model and the cost models to this machine."""
