"""Detection of the encoding of a file: it is asked for where a language has other letters."""

# ruff: noqa: RUF001 - texts in other languages

import pytest

from tuneline.runtime.errors import DataError
from tuneline.sniffing.encodings import detect_encoding

LINE = "un café noir,a\n"


def written(tmp_path, *parts):
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encoding_of_a_whole_file_is_detected(tmp_path, encoding):
    assert detect_encoding(written(tmp_path, (LINE * 40).encode(encoding))) == encoding.removesuffix("-sig")


@pytest.mark.parametrize(("good", "bad"), [(300, 1), (300, 3), (10, 90)])
def test_file_in_two_encodings_is_utf_8_with_bad_rows(tmp_path, good, bad):
    path = written(tmp_path, (LINE * good).encode(), (LINE * bad).encode("cp1252"))
    assert detect_encoding(path) == "utf-8"


def test_accidental_utf8_in_a_single_byte_file_does_not_prevent_the_guess(tmp_path):
    """The two characters Ã© of a damaged text are é in UTF-8."""
    content = (LINE * 40).encode("cp1252") + "cafÃ©,a\n".encode("cp1252")
    assert detect_encoding(written(tmp_path, content)) == "cp1252"


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
OTHERS = {
    "Płatność nie została zaksięgowana, proszę o pomoc z zamówieniem. Dziękuję!": "cp1250",
    "Objednávka nebyla doručena včas, prosím o řešení. Děkuji, zákazník Jiří Dvořák.": "cp1250",
    HUNGARIAN: "cp1250",
    TURKISH: "cp1254",
    "Order 1234 from the shop: заказ not arrived, please help me to find the parcel": "cp1251",
}


@pytest.mark.parametrize(("text", "encoding"), OTHERS.items())
def test_language_that_has_other_letters_than_western_ones_is_asked_for(tmp_path, text, encoding):
    with pytest.raises(DataError, match="not clear in which encoding") as refused:
        detect_encoding(written(tmp_path, f"{text},a\n".encode(encoding) * 30))
    assert f"--encoding {encoding}" in refused.value.hint


@pytest.mark.parametrize(("text", "encoding"), [("Привет мир", "cp1251"), ("これは文です", "shift_jis")])
def test_other_alphabets_are_asked_for(tmp_path, text, encoding):
    with pytest.raises(DataError, match="not clear in which encoding"):
        detect_encoding(written(tmp_path, f"{text},a\n".encode(encoding) * 30))


@pytest.mark.parametrize(
    "text",
    [
        "Ma commande n'est pas arrivée, je suis très déçu. Où est le colis ? Ça fait déjà deux jours.",
        "Die Lieferung ist für mich zu spät, bitte schnell lösen. Größe fehlt, übrigens schön.",
        "El envío no llegó todavía, ¿dónde está? Mañana será demasiado tarde, señor.",
        "A encomenda não chegou, por favor ajudem-me. Não é possível esperar até amanhã.",
        "It’s “late” again – the parcel never came to the café, £5 wasted.",
    ],
)
def test_western_languages_are_read_without_a_question(tmp_path, text):
    assert detect_encoding(written(tmp_path, f"{text},a\n".encode("cp1252") * 30)) == "cp1252"
