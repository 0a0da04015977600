import pytest

from tuneline.readers.text import is_cut, known_encoding, probable_encoding
from tuneline.runtime.errors import DataError

TEXTS = [
    ("cp1252", "un café au lait,ham"),
    ("cp1252", "it\u2019s \u201cquoted\u201d \u2013 fine"),
    ("mac_roman", "Größe und Übermut"),
    ("cp850", "un café au lait"),
    ("cp1251", '{"text": "Привет мир", "label": "spam"}'),
    ("koi8_r", "Привет мир"),
    ("cp1253", "Αυτό είναι ένα μήνυμα"),
    ("shift_jis", "これはテストです"),
    ("euc_kr", "안녕하세요 테스트입니다"),
]


@pytest.mark.parametrize(("encoding", "text"), TEXTS)
def test_probable_encoding_is_that_in_which_bytes_read_like_a_text(encoding, text):
    assert probable_encoding(text.encode(encoding)) == encoding


def test_unknown_name_of_an_encoding_is_refused():
    assert known_encoding("cp1251") == "cp1251"
    with pytest.raises(DataError, match="'utf9'"):
        known_encoding("utf9")


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        (b"Preis: 5 \xe2\x82,a", True),  # the first two of three bytes of a euro sign
        (b"fa\xc3", True),  # the first byte of an accented letter
        ("schön, 5 ".encode() + b"\xe2\x82", True),
        (b"\xf0\x9f\x98 fine", True),  # three of the four bytes of an emoji
        ("schön".encode(), False),
        (b"caf\xe9", False),  # in cp1252
        (b"gro\xdf", False),
        (b"\xc4rger", False),
        ("naïve".encode("cp1252"), False),
    ],
)
def test_start_of_a_character_is_recognised(line, cut):
    assert is_cut(line) == cut
