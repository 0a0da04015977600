"""The rows of a user's file: how it is written, what its columns mean, and the splits made of it."""
