"""How often the promotion gate is wrong: tests of discordant rows, the error budget, and its history."""
