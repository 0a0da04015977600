"""Real texts with several labels each: the descriptions of Debian's packages, with the tags people gave them.

They are read from the package lists of a Debian machine (``apt-cache dumpavail``), so no network is needed.
"""

import subprocess
from collections.abc import Iterator

FACETS = ("field", "implemented-in", "interface", "use", "works-with")
"""Parts of Debian's vocabulary whose tags say something about the description."""
LABELS = 25
"""The most frequent tags are the labels."""
LISTS = "/usr/bin/apt-cache"


def paragraphs() -> Iterator[dict[str, str]]:
    """Yield the fields of each package with a description."""
    dump = subprocess.run([LISTS, "dumpavail"], check=True, capture_output=True, text=True).stdout
    for fields in parsed(dump):
        if "Description" in fields:
            yield fields


def parsed(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph of a list of packages."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line.startswith((" ", "\t")):  # the value of the line before goes on
                fields[name] += line
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def described(fields: dict[str, str]) -> str:
    """Return the text of a package."""
    return f"{fields['Package']}: {fields['Description']}"


def tags_of(fields: dict[str, str]) -> list[str]:
    """Return the tags of a package without their facet; none where it has no field for them."""
    tags = []
    for tag in fields.get("Tag", "").split(","):
        facet, _, label = tag.strip().partition("::")
        if facet in FACETS:
            tags.append(label.replace(":", "-"))
    return tags
