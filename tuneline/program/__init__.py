"""An exported model in a program: rows as it has them, typed predictions, and which words move an answer."""
