"""Measuring well: interleaved rounds, a yardstick against drift, outputs checked before times."""
