"""What to measure, measuring it well, and keeping it."""
