"""The stage ``tokenize``: turns the raw splits into ids, once, before anything else reads them."""
