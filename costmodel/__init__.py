"""Predicting what variants cost on a graph, and choosing among them."""
