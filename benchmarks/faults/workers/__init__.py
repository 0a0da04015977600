"""Programs that look for faults: each reads folders from standard input and answers each with one line of JSON (``protocol``)."""
