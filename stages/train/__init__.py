"""The stage ``train``: trains the classifier on the tokenized splits."""
