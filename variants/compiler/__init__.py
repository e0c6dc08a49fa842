"""The compiler on a page: `pipeline`."""
