"""Pages for browsers: made by the server, useful without JavaScript, with nothing of others."""
