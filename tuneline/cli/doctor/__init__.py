"""``tuneline doctor``: what is wrong with this machine or this checkout, and what to do about it."""
