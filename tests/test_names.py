"""A name means one thing: no two classes have the same, and no alias of a type has that of a class."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT


def definitions(kind: type) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the public names of a kind of statement at the top of a module, except for options of the command line."""
    for package in ("tuneline", "stages", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for statement in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(statement, kind):
                    yield Path(path).relative_to(ROOT).as_posix(), statement


def test_classes_have_names_of_their_own():
    names = Counter(statement.name for _, statement in definitions(ast.ClassDef) if not statement.name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_aliases_of_types_have_no_name_of_a_class():
    classes = {statement.name for _, statement in definitions(ast.ClassDef)}
    aliases = {
        target.id: path
        for path, statement in definitions(ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and not ast.unparse(statement.value).startswith("Annotated[")
    }
    assert {name: path for name, path in aliases.items() if name in classes} == {}
