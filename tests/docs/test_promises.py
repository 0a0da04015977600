"""docs/reliability.md and the tests that are marked with its promises name the same ones."""

import re

PROMISE = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)
MARKER = re.compile(r'^ *@pytest\.mark\.promise\("([^"]+)"\)$', re.MULTILINE)


def test_every_promise_has_a_test_and_every_marked_test_its_promise(root):
    promises = PROMISE.findall((root / "docs/reliability.md").read_text(encoding="utf-8"))
    tested = set()
    for path in (root / "tests").rglob("test_*.py"):
        tested.update(MARKER.findall(path.read_text(encoding="utf-8")))

    assert len(promises) == len(set(promises)) > 0
    assert set(promises) == tested
