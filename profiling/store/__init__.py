"""Where profiling records are kept: SQLite or PostgreSQL, append-only (ADR 15)."""
