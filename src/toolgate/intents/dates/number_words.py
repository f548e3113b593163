"""Folded number words from one to a hundred in English, German, French, Spanish and Dutch.

Those of Portuguese and Italian go up to twenty, and tens.
"""

from collections.abc import Iterator
from typing import Final


def numbered_words(*rows: str) -> dict[str, int]:
    """Map each word of the n-th row to n."""
    return {word: number for number, row in enumerate(rows) for word in row.split()}


_SMALL: Final[dict[str, int]] = numbered_words(
    "",
    "one ein eine einem einer einen un une uno una een",
    "two zwei deux dos twee due dois duas",
    "three drei trois tres drie tre",
    "four vier quatre cuatro quattro quatro",
    "five funf fuenf cinq cinco vijf cinque",
    "six sechs seis zes sei",
    "seven sieben sept siete zeven sette sete",
    "eight acht huit ocho otto oito",
    "nine neun neuf nueve negen nove",
    "ten zehn dix diez tien dieci",
    "eleven elf onze once undici",
    "twelve zwolf zwoelf douze doce twaalf dodici doze",
    "thirteen dreizehn treize trece dertien tredici treze",
    "fourteen vierzehn quatorze catorce veertien quattordici",
    "fifteen funfzehn fuenfzehn quinze quince vijftien quindici",
    "sixteen sechzehn seize dieciseis zestien",
    "seventeen siebzehn dix-sept diecisiete zeventien",
    "eighteen achtzehn dix-huit dieciocho achttien",
    "nineteen neunzehn dix-neuf diecinueve negentien",
)

# English, German, French, Spanish and Dutch for 20 to 90. French counts 70 and 90 from 60 and 80.
_TENS: Final[dict[int, tuple[str, str, str, str, str]]] = {
    20: ("twenty", "zwanzig", "vingt", "veinte", "twintig"),
    30: ("thirty", "dreissig", "trente", "treinta", "dertig"),
    40: ("forty", "vierzig", "quarante", "cuarenta", "veertig"),
    50: ("fifty", "funfzig", "cinquante", "cincuenta", "vijftig"),
    60: ("sixty", "sechzig", "soixante", "sesenta", "zestig"),
    70: ("seventy", "siebzig", "soixante-dix", "setenta", "zeventig"),
    80: ("eighty", "achtzig", "quatre-vingts", "ochenta", "tachtig"),
    90: ("ninety", "neunzig", "quatre-vingt-dix", "noventa", "negentig"),
}

_ENGLISH: Final = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_GERMAN: Final = ["ein", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht", "neun"]
_FRENCH: Final = [
    *("un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze"),
    *("douze", "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"),
]
_SPANISH: Final = ["uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"]
_DUTCH: Final = ["een", "twee", "drie", "vier", "vijf", "zes", "zeven", "acht", "negen"]


def _compounds() -> Iterator[tuple[str, int]]:
    for tens, (english, german, french, spanish, dutch) in _TENS.items():
        yield from ((word, tens) for word in (english, german, french, spanish, dutch))
        # Before a noun `uno` is `un`.
        yield f"{spanish} y un", tens + 1
        for ones in range(1, 10):
            yield f"{english}-{_ENGLISH[ones - 1]}", tens + ones
            yield f"{english} {_ENGLISH[ones - 1]}", tens + ones
            yield f"{_GERMAN[ones - 1]}und{german}", tens + ones
            yield f"{spanish} y {_SPANISH[ones - 1]}", tens + ones
            # `tweeentwintig`: folding removes the diaeresis of the second e.
            yield f"{_DUTCH[ones - 1]}en{dutch}", tens + ones
            if tens == 20:
                yield f"veinti{_SPANISH[ones - 1]}", tens + ones
    for base, word in (
        (20, "vingt"),
        (30, "trente"),
        (40, "quarante"),
        (50, "cinquante"),
        (60, "soixante"),
        (80, "quatre-vingt"),
    ):
        for ones in range(1, 20 if base >= 60 else 10):
            yield f"{word}-{_FRENCH[ones - 1]}", base + ones
            if ones in {1, 11} and base < 80:
                yield f"{word} et {_FRENCH[ones - 1]}", base + ones
                yield f"{word}-et-{_FRENCH[ones - 1]}", base + ones


_SPOKEN: Final = dict(_compounds())

NUMBERS: Final[dict[str, int]] = {
    **_SMALL,
    **_SPOKEN,
    # Folding keeps the sharp s.
    **{word.replace("ss", "\u00df"): n for word, n in _SPOKEN.items() if "dreissig" in word},
    **dict.fromkeys(["venti", "vinte"], 20),
    **dict.fromkeys(["trenta", "trinta"], 30),
    **dict.fromkeys(["quaranta", "quarenta"], 40),
    **dict.fromkeys(["cinquanta", "cinquenta"], 50),
    **dict.fromkeys(["sessanta", "sessenta"], 60),
    **dict.fromkeys(["settanta", "setenta"], 70),
    **dict.fromkeys(["ottanta", "oitenta"], 80),
    **dict.fromkeys(["novanta", "noventa"], 90),
    "couple": 2,
    "dozen": 12,
    "veintiun": 21,
    **dict.fromkeys(["hundred", "hundert", "cent", "cien", "honderd"], 100),
}
"""Numbers by word; compounds such as `treinta y cinco` have one blank between their words."""
