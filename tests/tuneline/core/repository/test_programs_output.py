from tuneline.core.repository.programs import MAX_LENGTH, OutputLines


def collect(*chunks: bytes, **options) -> list[str]:
    seen: list[str] = []
    lines = OutputLines(seen.append, **options)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return seen


def test_lines_are_complete_for_any_chunking():
    assert collect(b"one\ntw", b"o\n", b"three") == ["one", "two", "three"]


def test_progress_bar_leaves_its_last_state():
    states = [b"\r%d/100" % step for step in range(1, 101)]
    assert collect(*states, b"\ndone\n") == ["100/100", "done"]


def test_line_without_end_is_cut():
    seen = collect(*[b"x" * 1000] * 100)
    assert all(len(line) <= MAX_LENGTH + len(" [...]") for line in seen)
