"""Backends: each turns a kernel and its schedule into something that runs."""
