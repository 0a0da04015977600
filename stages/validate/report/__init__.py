"""The report: JSON for machines, a page for people, and the pages of Great Expectations behind it."""
