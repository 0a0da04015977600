from flows.runs.output import MAX_LENGTH, OutputLines


def collect(*chunks: bytes, **options) -> list[str]:
    seen: list[str] = []
    lines = OutputLines(seen.append, **options)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return seen


def test_lines_come_whole_however_the_stream_was_cut():
    assert collect(b"one\ntw", b"o\n", b"three") == ["one", "two", "three"]


def test_letters_cut_in_the_middle_survive():
    text = "Zürich\n".encode()
    assert collect(text[:2], text[2:]) == ["Zürich"]


def test_a_progress_bar_leaves_its_last_state():
    states = [b"\r%d/100" % step for step in range(1, 101)]
    assert collect(*states, b"\ndone\n") == ["100/100", "done"]


def test_a_progress_bar_of_hours_leaves_a_trace():
    states = [b"\r%d/100" % step for step in range(1, 101)]
    seen = collect(*states, bar_every=0.0)
    assert 50 < len(seen) <= 100
    assert seen[-1] == "100/100"


def test_colours_are_taken_off():
    assert collect(b"\x1b[31mERROR\x1b[39m: no\n") == ["ERROR: no"]


def test_empty_lines_are_not_handed_on():
    assert collect(b"\n\n  \none\n\n") == ["one"]


def test_a_line_without_end_takes_no_memory():
    seen = collect(*[b"x" * 1000] * 100)
    assert all(len(line) <= MAX_LENGTH + len(" [...]") for line in seen)


def test_the_last_lines_are_remembered():
    lines = OutputLines(lambda _line: None, keep=2)
    lines.feed(b"one\ntwo\nthree\n")
    assert list(lines.last) == ["two", "three"]
