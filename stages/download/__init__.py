"""The stage ``download``: fetches the data of the line and writes its raw splits."""
