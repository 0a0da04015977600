"""Detection of the encoding of a file: it is asked for where a language has other letters."""

# ruff: noqa: RUF001 - texts in other languages

import gzip

import pytest

from tuneline.runtime.errors import DataError
from tuneline.sniffing import encodings
from tuneline.sniffing.files import SOURCES

LINE = "un café noir,a\n"


def detect_encoding(path):
    return encodings.detect_encoding(path, SOURCES)


def written(tmp_path, *parts):
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encoding_of_a_whole_file_is_detected(tmp_path, encoding):
    assert detect_encoding(written(tmp_path, (LINE * 40).encode(encoding))) == encoding.removesuffix("-sig")


@pytest.mark.parametrize(("good", "bad"), [(300, 1), (300, 3), (10, 90)])
def test_file_in_two_encodings_is_not_guessed(tmp_path, good, bad):
    path = written(tmp_path, (LINE * good).encode(), (LINE * bad).encode("cp1252"))
    with pytest.raises(
        DataError,
        match=f"line {good + 1}: .* {bad} are",
    ) as refused:
        detect_encoding(path)
    assert "In cp1252 it reads 'un café noir,a'" in refused.value.hint
    assert "--encoding cp1252" in refused.value.hint


def test_accidental_utf8_in_a_single_byte_file_does_not_prevent_the_guess(tmp_path):
    """The two characters Ã© of a damaged text are é in UTF-8."""
    assert (
        detect_encoding(written(tmp_path, (LINE * 40).encode("cp1252"), "cafÃ©,a\n".encode("cp1252")))
        == "cp1252"
    )


def test_text_cut_off_inside_a_character_names_its_last_line(tmp_path):
    with pytest.raises(DataError, match=r"line 41: .*byte 0xc3"):
        detect_encoding(written(tmp_path, (LINE * 40).encode(), b"caf\xc3"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Привет мир", "cp1251"), ("これは文です", "shift_jis"), ("žluťoučký kůň", "cp1250")],
)
def test_letters_of_another_alphabet_are_not_taken_for_western_ones(tmp_path, text, encoding):
    with pytest.raises(DataError, match="line 1: not utf-8: byte") as refused:
        detect_encoding(written(tmp_path, f"{text},a\n".encode(encoding) * 30))
    assert "set --encoding to it" in refused.value.hint


HUNGARIAN = (
    "A csomag még mindig nem érkezett meg, kérem segítsenek! Köszönöm, őszintén várom a választ. Két hete"
    " rendeltem egy könyvet, de a bolt szerint már úton van. Hűséges vevőjük vagyok, mégis nagyon csalódott"
    " leszek, ha ezt nem oldják meg hamarosan."
)
TURKISH = (
    "Siparişim hâlâ gelmedi, lütfen yardım edin. Teşekkürler, değişiklik için bekliyorum. İki hafta önce bir"
    " kitap aldım ama kargo şirketi hiçbir şey söylemiyor. Çok mutsuz bir müşteriyim, paramı geri istiyorum,"
    " çünkü ürün bozuk çıktı ve kutusu açıktı."
)
CENTRAL_EUROPEAN = {
    "Płatność nie została zaksięgowana, proszę o pomoc z zamówieniem. Dziękuję!": "cp1250",
    "Objednávka nebyla doručena včas, prosím o řešení. Děkuji, zákazník Jiří Dvořák.": "cp1250",
    HUNGARIAN: "cp1250",
    TURKISH: "cp1254",
    "Order 1234 from the shop: заказ not arrived, please help me to find the parcel": "cp1251",
}


@pytest.mark.parametrize(("text", "encoding"), CENTRAL_EUROPEAN.items())
def test_language_that_has_other_letters_than_western_ones_is_asked_for(tmp_path, text, encoding):
    with pytest.raises(DataError, match=f"in {encoding} than") as refused:
        detect_encoding(written(tmp_path, f"{text},a\n".encode(encoding) * 30))
    assert f"--encoding {encoding}" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "Ma commande n'est pas arrivée, je suis très déçu. Où est le colis ? Ça fait déjà deux jours.",
        "Die Lieferung ist für mich zu spät, bitte schnell lösen. Größe fehlt, übrigens schön.",
        "El envío no llegó todavía, ¿dónde está? Mañana será demasiado tarde, señor.",
        "A encomenda não chegou, por favor ajudem-me. Não é possível esperar até amanhã.",
        "Pakken er ikke nået frem, jeg vil gerne have pengene på kontoen. Følg op, ærligt.",
        "Pakettini ei ole vielä tullut perille, pyydän apua mitä pikimmin tässä.",
        "It’s “late” again – the parcel never came to the café, £5 wasted.",
    ],
)
def test_western_languages_are_read_without_a_question(tmp_path, text):
    assert detect_encoding(written(tmp_path, f"{text},a\n".encode("cp1252") * 30)) == "cp1252"


def test_cut_character_is_not_taken_for_another_encoding(tmp_path):
    with pytest.raises(DataError, match="not utf-8") as refused:
        detect_encoding(written(tmp_path, (LINE * 10).encode(), "Preis: 5 €"[:-1].encode() + b"\xe2\x82,a\n"))
    assert "A character is cut here" in refused.value.hint
    assert "In " not in refused.value.hint


def test_probable_encoding_of_another_alphabet_is_named(tmp_path):
    with pytest.raises(DataError) as refused:
        detect_encoding(written(tmp_path, "Привет мир,a\n".encode("cp1251") * 30))
    assert "In cp1251 it reads 'Привет мир,a'" in refused.value.hint


def test_packed_file_is_read_unpacked(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress((LINE * 3).encode("cp1252")))
    assert detect_encoding(path) == "cp1252"
