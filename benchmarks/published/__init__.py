"""The time from a file of labelled rows to a published model, with Tuneline and by hand."""
