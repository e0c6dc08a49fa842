"""Where trained cost models are kept, and which of them answers."""
