"""The stage ``report``: write the page about the model and its card."""
