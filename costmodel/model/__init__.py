"""What predicts the seconds of launches: fitted, kept in bundles, and put to use."""
