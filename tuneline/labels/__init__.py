"""Labels that people give: how they are written, and which rows to ask about."""
