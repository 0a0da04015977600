"""The stage ``train``: train the classifier on the tokenized splits."""
