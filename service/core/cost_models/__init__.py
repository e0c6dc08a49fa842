"""Cost models in the model registry."""
