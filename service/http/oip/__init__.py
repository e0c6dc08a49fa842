"""The Open Inference Protocol, version 2: what existing clients of inference servers speak."""
