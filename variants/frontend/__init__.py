"""From Python layers to programs: the traced DSL, `hetune.nn`, PyTorch Geometric's modules."""
