"""Inter-operator IR: nodes, printer and parser, verifier, interpreter."""
