"""``tuneline predict``: the exported model on files of any size. Imports no torch, which would take seconds to start."""
