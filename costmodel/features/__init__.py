"""What cost models see of a graph and of a launch."""
