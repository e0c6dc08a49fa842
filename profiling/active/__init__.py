"""Choosing what to measure next by what models are unsure of (active learning)."""
