"""Runs on graphs of any size, part by part, between requests."""
