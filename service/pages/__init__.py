"""Pages for browsers: by the server, usable without JavaScript, nothing from elsewhere."""
