"""Plans: programs with their choices made, lowered to launches over buffers."""
