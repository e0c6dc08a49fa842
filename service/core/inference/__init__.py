"""Choosing variants, and running models."""
