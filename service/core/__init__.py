"""What the service does, as plain typed functions and classes that can be called in-process."""
