"""Facts of git and DVC about the repository, isolated working trees, and the programs that run in them."""
