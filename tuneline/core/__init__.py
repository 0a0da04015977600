"""What every other room builds on: parameters, records, processes, git and DVC."""
