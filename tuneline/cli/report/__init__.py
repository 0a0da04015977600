"""``tuneline report``: one page that says how good the model is, how sure that is, and where it came from."""
