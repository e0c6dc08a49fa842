"""Measuring in a process of its own, whose crashes, hangs and hunger become records."""
