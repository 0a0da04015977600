"""``python -m tuneline.cli``: the command of the folder that it runs in.

The installed command may be of another folder.
"""

from tuneline.cli import app

if __name__ == "__main__":
    app(prog_name="tuneline")
