"""What the stages share, at the top of this package; the command people type, ``tuneline``, in ``tuneline.cli``. All without torch."""
