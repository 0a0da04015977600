"""What people and programs write where a value is missing, in lower case: one list for labels and numbers.

Nobody gives a class one of ``NO_NAMES``, unless other classes are signs, too. The other words can be either:
``none`` is an answer to a question about an emotion, and NA a continent.
"""

SIGNS = frozenset({"-", "--", "---", "\u2013", "\u2014", "?", "."})
"""Dashes, as Excel writes them, too; the question mark; the point of SAS and Stata."""
NO_NAMES = SIGNS | {
    "\\n",
    "null",
    "(null)",
    "<null>",
    "[null]",
    "#null!",
    "#n/a",
    "#nv",
    "#value!",
    "#ref!",
    "#name?",
    "#div/0!",
    "#num!",
    "<na>",
    "nan",
    "-nan",
    "nat",
    "(blank)",
    "(empty)",
    "(missing)",
}
MISSING_WORDS = NO_NAMES | {"na", "n/a", "n.a.", "none", "nil", "undefined"}
