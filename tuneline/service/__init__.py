"""A model behind a port: requests of several dialects, answered by one queue of rows."""
