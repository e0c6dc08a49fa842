"""Pages for browsers: made by the server, usable without JavaScript, with nothing from elsewhere."""
