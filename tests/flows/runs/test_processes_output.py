from flows.runs.processes import MAX_LENGTH, OutputLines


def collect(*chunks: bytes, **options) -> list[str]:
    seen: list[str] = []
    lines = OutputLines(seen.append, **options)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return seen


def test_lines_are_complete_for_any_chunking():
    assert collect(b"one\ntw", b"o\n", b"three") == ["one", "two", "three"]


def test_multibyte_character_across_chunks_is_decoded():
    text = "Zürich\n".encode()
    assert collect(text[:2], text[2:]) == ["Zürich"]


def test_progress_bar_leaves_its_last_state():
    states = [b"\r%d/100" % step for step in range(1, 101)]
    assert collect(*states, b"\ndone\n") == ["100/100", "done"]


def test_long_progress_bar_is_logged_repeatedly():
    states = [b"\r%d/100" % step for step in range(1, 101)]
    seen = collect(*states, bar_every=0.0)
    assert 50 < len(seen) <= 100
    assert seen[-1] == "100/100"


def test_ansi_colours_are_removed():
    assert collect(b"\x1b[31mERROR\x1b[39m: no\n") == ["ERROR: no"]


def test_empty_lines_are_dropped():
    assert collect(b"\n\n  \none\n\n") == ["one"]


def test_line_without_end_is_cut():
    seen = collect(*[b"x" * 1000] * 100)
    assert all(len(line) <= MAX_LENGTH + len(" [...]") for line in seen)


def test_last_lines_are_kept():
    lines = OutputLines(lambda _line: None, keep=2)
    lines.feed(b"one\ntwo\nthree\n")
    assert list(lines.last) == ["two", "three"]
