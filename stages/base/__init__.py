"""The stage ``base``: bring the pretrained model and its tokenizer into the project."""
