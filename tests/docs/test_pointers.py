"""Pages and sections of the documentation that code, parameters, templates and pages point to."""

import re
import subprocess

SOURCES = (
    "tuneline",
    "stages",
    "flows",
    "conf",
    "params.yaml",
    "dvc.yaml",
    "prefect.yaml",
    "Makefile",
    "README.md",
)
TEST = re.compile(r"(tests/[a-z_/]+\.py)(?:::(\w+))?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
POINTER = re.compile(r"(?<![\w/.])docs/[\w./-]+\.md(?:#[\w-]+)?")


def pointers(root):
    """Return each pointer, and the files that contain it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard", *SOURCES],
        cwd=root,
        capture_output=True,
        check=True,
    )
    found = {}
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = root / name
        if path.suffix in {".py", ".j2", ".yaml", ".md", ""} and path.is_file():
            for pointer in POINTER.findall(path.read_text(encoding="utf-8")):
                found.setdefault(pointer, []).append(name)
    return found


def anchors(text):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_and_section_that_is_pointed_to_exists(root):
    found = pointers(root)
    assert "docs/your-data.md" in found
    missing = {}
    for pointer, names in found.items():
        page, _, anchor = pointer.partition("#")
        path = root / page
        if not path.is_file() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            missing[pointer] = names
    assert not missing


def test_every_relative_link_of_a_page_leads_somewhere(root):
    broken = []
    for page in [*root.glob("*.md"), *(root / "docs").glob("*.md")]:
        text = CODE.sub("", page.read_text(encoding="utf-8"))
        for link in LINK.findall(text):
            if "://" in link:
                continue

            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            exists = target.exists()
            if exists and anchor:
                exists = anchor in anchors(target.read_text(encoding="utf-8"))
            if not exists:
                broken.append((page.name, link))
    assert not broken


def test_every_test_that_a_page_names_exists(root):
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md")]
    named = {(path, test) for page in pages for path, test in TEST.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 20
    missing = [
        (path, test)
        for path, test in named
        if not (root / path).is_file() or (test and f"def {test}(" not in (root / path).read_text())
    ]
    assert not missing
