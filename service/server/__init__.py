"""The application: all routes, what wraps them, and the socket."""
