"""Ways to use hetune from outside: the command line."""
