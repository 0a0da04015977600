"""The core that stages, flows and the command line (``tuneline.cli``) share. Its import loads neither torch nor transformers."""
