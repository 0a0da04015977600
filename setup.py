"""Adds to a wheel the files that ``tuneline new`` writes: ``template`` in pyproject.toml."""

import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TEMPLATE = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["tuneline"]["template"]


class BuildWithTemplate(build_py):
    """Copies the packages, and the files of a project to ``tuneline/template/``."""

    def run(self) -> None:
        """Copy; an editable install reads the files where they are."""
        super().run()
        if self.editable_mode:
            return
        for pattern in TEMPLATE:
            for path in Path().glob(pattern):
                if path.is_file():
                    target = Path(self.build_lib, "tuneline/template", path)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": BuildWithTemplate})
