"""The command line `hetune`."""
