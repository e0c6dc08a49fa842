"""The interpreter as a backend: slow, complete, any device."""
