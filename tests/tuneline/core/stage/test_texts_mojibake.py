# ruff: noqa: RUF001 (odd characters are what these tests are about)
import pyarrow as pa
import pytest

from tuneline.core.stage.texts import broken_characters, repaired

VALID = [
    "naïve café €5 “quoted”",
    "NÃO, SÃO PAULO, Â, Ã",
    "AMANHÃ FOI",
    "NÃO»",
    "„MENÜ“ und »Tschüß«",
    "il a déménagé…”",
    "L’été, l’école “élégante” à côté",
    "В “Её” — «ещё» СССР»",
    "Ελληνικά»",
    "Việt Nam ƯƠ",
    "Łódź ğüşıöç 90° Ü",
    "中文测试。日本語… 한국어",
    "emoji 😀 ❤️",
    "",
]
READINGS = [
    ("café", "latin-1"),
    ("Österreich", "cp1252"),
    ("it’s “quoted” – yes", "cp1252"),
    ("emoji 😀", "cp1252"),
]
READINGS += [("Привет мир", "latin-1"), ("Привет мир", "cp1251"), ("Größe", "cp1250"), ("café", "mac_roman")]


def counts(*texts: str) -> list[int]:
    return broken_characters(pa.array(texts)).tolist()


def test_valid_texts_of_any_language_have_no_broken_characters():
    assert counts(*VALID) == [0] * len(VALID)
    assert [repaired(text) for text in VALID] == VALID


@pytest.mark.parametrize(("text", "codec"), READINGS)
def test_text_decoded_with_a_wrong_encoding_is_recognised_and_restored(text, codec):
    wrong = f"Look: {text.encode().decode('sloppy-windows-1252' if codec == 'cp1252' else codec)} is here"
    assert counts(wrong)[0] > 0
    assert repaired(wrong) == f"Look: {text} is here"


def test_lost_characters_and_windows_quotes_read_as_latin_1_are_broken():
    assert counts("caf\ufffd", "it\x92s", "Ã¼\ufffd", "fine") == [1, 1, 3, 0]
