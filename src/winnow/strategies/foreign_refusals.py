"""Refusals in languages other than English: short denials that the answer is known or stated.

They are the usual words of the most common languages. A reply counts if it is such a clause and
hardly more, so that answers which contain one of these words stay answers.
`winnow.strategies.refusals` has the rules for English.
"""

import re

_PHRASES = (
    # German, French, Spanish, Portuguese, Italian
    r"(?:das )?wei(?:ß|ss) ich nicht|ich wei(?:ß|ss)(?: es)?(?: leider)? nicht|unbekannt",
    (
        r"keine (?:angaben?|antwort|informationen?)|(?:nicht|wird nicht|ist nicht) (?:bekannt|"
        r"angegeben|erwähnt|genannt)"
    ),
    r"(?:das )?(?:geht|steht) (?:daraus )?nicht (?:hervor|da)",
    (
        r"je (?:ne )?(?:le )?sais pas|inconnue?|(?:ce )?(?:n'est )?(?:pas|non) (?:mentionnée?|"
        r"précisée?|spécifiée?|indiquée?)"
    ),
    r"aucune (?:information|réponse|mention)",
    (
        r"no (?:lo )?sé|desconocid[oa]|no se (?:menciona|sabe|especifica|indica|dice)|"
        r"sin (?:respuesta|información)"
    ),
    (
        r"(?:eu )?não sei|desconhecid[oa]|não (?:é |foi |está )?(?:mencionad|informad|especificad|"
        r"indicad)[oa]"
    ),
    r"sem (?:resposta|informação)",
    (
        r"non (?:lo )?so|sconosciut[oa]|non (?:è |viene )?(?:menzionat|specificat|indicat)[oa]|"
        r"nessuna (?:informazione|risposta)"
    ),
    # Russian, Chinese, Japanese, Korean, Thai, Arabic, Hindi
    (
        r"(?:я )?не знаю|неизвестно|не (?:указано|упоминается|упомянуто|сказано)|нет (?:ответа|"
        r"информации|данных)"
    ),
    r"(?:我)?不知道|未知|不清楚|无法(?:确定|回答|得知|判断)|(?:文中|文章|段落|资料)?(?:中)?(?:没有|未)(?:提到|提及|说明|给出|相关信息)",
    r"(?:我)?不知道|無法(?:確定|回答|得知)|未提及|沒有(?:提到|提及|相關資訊)",
    r"(?:わか|分か|判)りません|わからない|不明(?:です)?|知りません|(?:記載|言及)(?:されて)?(?:い|がない|があり|はあり)?(?:ません|ない)?",
    r"答えられません|情報が(?:ありません|ない)",
    r"모르겠(?:습니다|어요)|모름|모릅니다|알 수 없(?:음|습니다|어요)|알려지지 않(?:음|았습니다)",
    r"언급되(?:지 않(?:음|았습니다)|어 있지 않습니다)",
    r"ไม่ทราบ|ไม่รู้|ไม่มีข้อมูล|ไม่ได้(?:กล่าวถึง|ระบุ)",
    r"لا (?:أعرف|اعرف|أعلم)|غير (?:معروف|مذكور|معلوم)|لا توجد معلومات",
    r"(?:मुझे )?(?:पता|मालूम) नहीं|नहीं पता|अज्ञात|जानकारी (?:नहीं|उपलब्ध नहीं)(?: है)?",
)
_MAX_CHARACTERS = 120
_REFUSAL = re.compile(
    r"\W*(?:(?:leider|désolée?|lo siento|desculpe|spiacente|извините|"
    r"对不起|抱歉|申し訳ありません|죄송합니다|ขออภัย|آسف)\W+)?"
    rf"(?:{'|'.join(_PHRASES)})"
    r"(?:\W+(?:im|in|dans|en el|en los|no|nei|nel|в|dem|den|le|la|les|il|text|texte|texto|testo|"
    r"textes|тексте|passages?|pasajes?|passagens?|passaggi|kontext|contexte|contexto|contesto|です|"
    r"ます|。))*\W*",
    re.IGNORECASE,
)


def is_foreign_refusal(reply: str) -> bool:
    """Return whether a reply is a refusal in one of twelve languages."""
    return len(reply) <= _MAX_CHARACTERS and _REFUSAL.fullmatch(reply) is not None
