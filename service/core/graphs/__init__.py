"""Graphs, and features of their nodes."""
