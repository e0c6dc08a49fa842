"""Training cost models on what was measured, judging them, and promoting those that win."""
