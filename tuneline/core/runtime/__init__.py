"""What a process does beside its results: errors, printing, locks, atomic files, the programs it starts."""
