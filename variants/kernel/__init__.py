"""Intra-operator IR: nodes, printer and parser, verifier, interpreter, schedules."""
