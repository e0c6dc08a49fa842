"""Migrations of the tables, of measurements and of jobs (ADR 15)."""
