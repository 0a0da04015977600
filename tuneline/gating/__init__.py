"""How often the promotion gate is wrong: the error budget of a year, and its history."""
