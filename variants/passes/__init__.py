"""Rewrites of programs, the choices between them, and the enumerator of variants."""
