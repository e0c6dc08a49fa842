"""The routes of hetune's own API."""
