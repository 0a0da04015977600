"""The stage ``tokenize``: convert the raw splits to token ids once, for all later stages."""
