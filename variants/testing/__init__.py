"""The conformance suite: what every backend, and every new layer, is held to."""
