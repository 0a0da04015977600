"""``python -m tuneline.cli``: the command of the folder that it runs in, which the installed one may not be."""

from tuneline.cli import app

if __name__ == "__main__":
    app(prog_name="tuneline")
