"""Facts about the repository: git, DVC, registry, scored files. No stage depends on it."""
