"""Judging choices by regret on inputs that were measured: metrics, baselines, reports, cards."""
