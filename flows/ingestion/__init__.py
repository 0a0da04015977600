"""New labelled rows: where they come from, which of them are new, and how they become a commit."""
