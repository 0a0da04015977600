"""What every other package builds on: files, locks, schemas, records, paths, errors, and what a stage is."""
