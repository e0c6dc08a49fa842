"""Files that are there whole or not at all, and what of them is held in memory."""
