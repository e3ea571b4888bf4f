"""Refusals in the most common languages beside English, and answers that only look like them."""

import pytest

from winnow.strategies.unknown import is_unknown


@pytest.mark.parametrize(
    "reply",
    [
        "Ich weiß es nicht.",
        "Unbekannt",
        "Nicht erwähnt im Text.",
        "Keine Angabe",
        "Je ne sais pas.",
        "Non mentionné",
        "Aucune information",
        "No lo sé.",
        "No se menciona en el texto.",
        "Desconocido",
        "Não sei",
        "Não é mencionado",
        "Non lo so.",
        "Non specificato",
        "Я не знаю.",
        "Неизвестно",
        "不知道。",
        "未知",
        "无法确定",
        "文中未提及",
        "わかりません。",
        "不明です",
        "모르겠습니다.",
        "알 수 없음",
        "ไม่ทราบ",
        "لا أعرف",
        "غير معروف",
        "पता नहीं",
        "अज्ञात",
    ],
)
def test_refusals_of_twelve_languages(reply: str) -> None:
    """The whole reply says so."""
    assert is_unknown(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Der unbekannte Soldat",
        "Unbekannte Größen",
        "El libro desconocido de Borges",
        "Non so più cosa son",
        "No",
        "Inconnu à cette adresse",
        "Je ne sais pas choisir",
        "未知数",
        "不知火",
        "東京",
        "서울",
        "Неизвестный солдат",
    ],
)
def test_answers_that_contain_such_words(reply: str) -> None:
    """Titles and names."""
    assert not is_unknown(reply)
