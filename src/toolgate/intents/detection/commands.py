"""Recognize clauses that command something: "find", "zeigen Sie", "列出".

"Find all tickets that are resolved" asks for something although "are resolved" says that a matter
is settled. A clause counts as a command if it starts with a verb that asks for work, in the
imperative or the infinitive, and with what such a verb takes: an article, a number, a plural. Rules
for English, German, French, Spanish, Portuguese, Italian, Dutch, Chinese and Japanese.
"""

import re
from typing import Final

from toolgate.intents.patterns import late_pattern

# "Mark was great" and "check arrived" start with a noun, "give my thanks" asks for nothing.
_ENGLISH: Final = r"""(?:(?:please|kindly|just|now|then|also|first|hi|hello|hey|ok|okay)[ ,]\ *)*
    (?: find | search | fetch | get(?!\ (?:this|well|it|over|back)\b) | export | import
      | count(?!\ me) | filter | merge | mark | show | list | give | send | print | open | close
      | reopen | compare | check | move | archive | assign | return | retrieve | display
      | download
      | upload | sort | group | select | pick | pull | look\ (?:up|for) | locate | summari[sz]e
      | calculate | compute | add | remove | delete | tag | label | flag | rename | copy
      | generate | create | draft | write | translate | name | tell | bring | collect | gather
      | load | query | identify | highlight | hide | notify | remind | unassign
      | recommend | suggest | convert | schedule | reschedule | extract
      | refund | duplicate | void | unlock | lock | reset | restart | approve | validate
      | reconcile
      | reject | prioriti[sz]e | escalate | track | cancel(?!\ (?:that|this)\b)
      | update(?!\ \d) | attach | invite | edit | looking\ for
    )(?=\ ) (?!\ (?:is|was|has|had|are|were|came|arrived|turned|works?|looks?|went|got|already|now
      |sorted|done|found|fixed|paid|received|sent|of|in|again|ahead)\b)
    (?!\ [^.!?]{0,40}\b(?:thanks?|regards|compliments|love|hugs?|congratulations|raise|medal)\b)
    (?=\ (?:an?|the|all|any|some|every\w*|each|both|my|our|your|his|her|its|their|me|us|it|them|this
      |that|these|those|what|which|who|how|up|out|only|just|for|by|through|no|more|new
      |open|\w+s(?!\ (?:is|are|was|were|have|has|looks?|went|arrived|came)\b)|\W*\d\S*
      |["“#]\S*)(?!\w)
      |\ (?!\w+ed\b)[^\s.,;!?]+\ (?:(?:to|by|as|with)\b|\W*\d))
"""
_GERMAN: Final = r"""(?:(?:bitte|mal|und|dann|jetzt|hallo|hi|noch)[ ,]\ *)*
    (?: (?: such | hol | exportier | importier | zähl | filter | filtr | markier | list | zeig
      | gib
        | schick | send | druck | vergleich | prüf | verschieb | archivier | weis | ordn | schließ
        | sortier | lad | nenn | fass | übersetz | berechn | speicher | kopier | gruppier | benenn
        | trag | setz | füg | schreib | lies | erinner | ruf | wähl | lösch | entfern | sammel
        | erstatt | bearbeit | duplizier | storn | stornier | öffn | ermittel | ermittl | sag
      | find(?!e?\ (?:ich|wir|es)\b)
        | stell(?!e?\ (?:dir|euch)\b)
      )e?(?!\ (?:heute|gestern|wieder|leider|gerne?|bereits|inzwischen|haben?|wurden?|waren
        |(?:ab|ein)?ge\w+en(?=\s*(?:[.,!;]|$)))\b)(?!\ \w+\ (?:ist|sind|war|waren)\b)
      (?=\ (?:mir|uns|d(?:ie|as|en|er|em)|alle\w*|ein\w*|mein\w*|unser\w*|dies\w*|jede\w*
        |nur|mal|bitte|nach|an|auf|in|welche\w*|was|wie|alles|\w+(?:te|ten|ene|enen|en|er|e|s)|\d\S*)
        \b)(?![^.!?;,]{0,30}\b(?:toll|super|klasse|prima|gut|spitze|genial|schön)\s*(?:[.!,]|$))
      | (?!(?:müssen|brauchen|können|sollten|sind|haben|werden|wollen|hätten|würden|vergessen
        |ignorieren|lassen|bleiben|grüßen|danken|betrachten|waren|machen|dürfen|wissen|sollen
        |hatten|wurden|möchten)\b)\w{3,}e(?:n|rn|ln)\ sie\b(?!\ sich\ (?:vor|das|mal|keine))
      | (?:(?!(?:ich|wir|sie|er|man|du|ihr|zu|nichts?|keine?|habe?|haben|hat|ist|sind|war|waren
        |wurden?|wollte\w*|müssen|brauch\w*|kann|können|mehr|dank\w*|fürs|vom
        |beim|zum|zur)\b)[\w-]+\ ){1,6}
        (?:suchen|finden|anzeigen|auflisten|exportieren|zählen|filtern|markieren|ausgeben|senden
        |schicken|drucken|ausdrucken|öffnen|vergleichen|prüfen|verschieben|archivieren|zuweisen
        |schließen|sortieren|herunterladen|löschen|entfernen|heraussuchen|zusammenfassen|zeigen)
        (?=\s*(?:[.,!;]|$))
    )
"""
_FRENCH: Final = r"""(?:(?:merci\ de|bonjour|puis|et|alors|maintenant)[ ,]\ *)*
    (?: (?: (?:re)?trouv | (?:re)?cherch | export | import | compt | filtr | fusionn | marqu
        | affich | list | donn | envoi | envoy | imprim | ouvr | compar | vérifi | déplac | archiv
        | attribu | assign | ferm | clôtur | récupèr | récupér | extrai | extrair | télécharg
      | tri
        | sélectionn | class | indiqu | ajout | renomm | génèr | génér | calcul | résum
        | tradui | mett | met | montr | signal | supprim | rembours | annul | valid | relanc
      | rouvr | énumèr | énumér
      )(?:e|es|ez|er|ir|re|s|yez|sez)(?=[ -](?:l[ae]s?\b|l['’]|une?\b|des\b|du\b|d['’]|mes\b|mon\b
        |ma\b|nos\b|notre\b|tou\w+|ce\w*|moi|nous|chaque|quel\w*|combien|sur\b|parmi|dans|\w+s\b))
      | dis-moi
      | (?!(?:chez|assez|laissez|oubliez|ignorez|imaginez|remerciez|sachez|recevez|passez|gardez
        |continuez|restez|figurez|considérez|avez|êtes|aurez|serez|félicitez|transmettez|rassurez)\b)
        \w{3,}ez(?:-(?:moi|nous|l[ae]s?|en))?(?=\ (?:l[ae]s?\b|l['’]|une?\b|des\b|toute?s\b|tous\b
        |mes\b|nos\b|ce\w*\b))
    )
"""
_SPANISH: Final = r"""(?:(?:ahora|luego|hola|y)[ ,]\ *)*
    (?: mu[eé]str | mostr | enc[uo]+[eé]?ntr | encontr | b[uú]s(?:c|qu) | exp[oó]rt
      | c[uú]ent | cu[eé]nt | cont | f[ií]ltr | combin | m[aá]r(?:c|qu) | l[ií]st | enum[eé]r
      | env[ií] | m[aá]nd | impr[ií]m | [aá]br | comp[aá]r | comprueb | comprob
      | ver[ií]fi(?:c|qu)
      | rev[ií]s | mu[eé]v | mov | arch[ií]v | as[ií]gn | ci[eé]rr | cerr | s[aá](?:c|qu)
      | tr[aá]e
      | tra[eí]g | obt[eé]n | desc[aá]r(?:g|gu) | ord[eé]n | selecci[oó]n | ind[ií](?:c|qu)
      | a[nñ]ad | c[oó]pi | calcul | res[uú]m | recup[eé]r | cons[uú]lt
      | local[ií](?:z|c) | gen[eé]r | reemb[oó]ls | dupl[ií](?:c|qu) | elim[ií]n | b[oó]rr
      | (?<!\w)(?:da|de|di|dé)(?=me|nos)
    )(?:a|e|á|ar|er|ir|ga|an|en|)(?:me|nos|melos?|melas?|l[oae]s?)?
    (?=\ (?:el|l[ao]s?|una?|mis?|nuestr\w+|tod\w+|est[aeo]s?|es[ao]s?|aquell\w+|qué|cuánt\w+
      |solo|\w{3,}s)\b)
"""
_PORTUGUESE: Final = r"""(?:(?:agora|olá|depois|e)[ ,]\ *)*
    (?: mostr | encontr | procur | bus(?:c|qu) | export | import | cont | filtr | junt | combin
      | mar(?:c|qu) | list | d[áê] | envi | mand | imprim | abr | compar | verifi(?:c|qu)
      | confir | confer | mov | arquiv | atribu | fech | encerr | traz | traga | obt[eé]m
      | obtenh | transfir | transfer | baix | descarreg | orden | selecion | indi(?:c|qu) | di[zg]
      | apresent | copi | calcul | resum | elimin | apag | ger | reembols | dupli(?:c|qu)
    )(?:a|e|ar|er|ir|ue|)(?:-(?:me|nos|[oa]s?|l[oa]s?))?
    (?=\ (?:[oa]s?|uma?|meus?|minhas?|noss\w+|tod\w+|est[ea]s?|ess[ea]s?|quais|quant\w+|só
      |\w{3,}s)\b)
"""
_ITALIAN: Final = r"""(?:(?:ora|ciao|poi|e)[ ,]\ *)*(?:mi\ )?
    (?: trov | cer(?:c|ch) | esport | import | cont | filtr | unisc | segn | contrassegn
      | elen(?:c|ch) | dam(?=mi) | dim(?=mi) | invi | mand | stamp | apr | confront | controll
      | verifi(?:c|ch) | spost | archivi | assegn | chiud | scari(?:c|ch) | ordin(?!e\b)
      | selezion
      | indi(?:c|ch) | recuper | estr | riepilog | visualizz
      | mostr | rimuov | cancell | copi | calcol | riassum | rimbors | dupli(?:c|ch) | annull
    )(?:a|i|e|are|ere|ire|mi|ai|iate|)(?:mi|ci|l[aoie])?
    (?=\ (?:il|l[aoe]|i|gli|l['’]\w+|una?|mie[i]?|mi[ao]|nostr\w+|tutt\w+|quest\w+|quell\w+|qual\w+
      |quant\w+|solo|\w{3,}[ei])\b)
"""
_DUTCH: Final = r"""(?:(?:nu|dan|hallo|eens)[ ,]\ *)*
    (?: (?: vind(?!\ (?:ik|we|het)\b) | zoek | haal | exporteer | importeer | tel | filter | voeg
        | markeer | geef | stuur | print | druk | open | vergelijk | controleer | check
      | verplaats
        | archiveer | wijs | sluit | bekijk | selecteer | sorteer | download | noem | bereken
        | lijst | verwijder | kopieer | dupliceer | annuleer | hernoem | zet | schrijf
      | verzamel | toon | laat
      )t?(?=\ (?:de|het|een|alle|al|mijn|ons|onze|mij|me|deze|dit|die|dat|elke?|op|naar|alleen|u
        |(?!binnen\b)\w+en(?!\ (?:is|zijn|was|waren|ging\w*)\b)|\d\S*)\b)
      | (?:(?!(?:ik|wij|we|ze|zij|hij|jullie|u|te|niets?|niet|hoef\w*|heb\w*|is|zijn|was|waren
        |moet\w*|meer)\b)[\w-]+\ ){1,6}
        (?:zoeken|vinden|tonen|weergeven|exporteren|tellen|filteren|markeren|versturen|afdrukken
        |vergelijken|controleren|verplaatsen|archiveren|toewijzen|sluiten|sorteren|opzoeken
        |downloaden|verwijderen)(?=\s*(?:[.,!;]|$|\ (?:die|dat)\b))
    )
"""
_CHINESE: Final = r"""(?:^|[\uff0c\u3002\uff01\uff1b\uff1a,.;!:\s])(?:再|先|现在|麻烦|顺便)?
    (?: (?:找|查|搜|列|显示|导出|导入|打开|统计|筛选|合并|标记|展示|打印|发送|发给|比较|检查|移动
        |归档|分配|关闭|获取|下载|排序|看看|告诉(?![你您大])|推荐|汇总|数一?数|查询|查找|搜索|寻找|查看)
        (?!的|成功|正常|没问题|[^\uff0c\u3002\uff01,.!]{0,6}[了过完](?!的))(?=.{2})
      | 把[^\uff0c\u3002\uff01,.!了]{1,24}(?:列|导|标|移|归|发|找|关|打|合|分|删|排|筛)
        [^\uff0c\u3002\uff01,.!了]{0,10}(?:[\uff0c\u3002\uff01,.!]|$)
    )
"""
# "確認して、もう大丈夫です" goes on after its "して", so only the end of a sentence commands.
_JAPANESE: Final = r"""(?:探し|見せ|教え|出し|調べ|送っ|開い|閉じ|並べ|数え|まとめ|比べ|挙げ|表示し
      |検索し|抽出し|出力し|印刷し|確認し|比較し|集計し|移動し|保存し|共有し|一覧にし|一覧化し
      |リストアップし|割り当て|絞り込ん|ダウンロードし|エクスポートし|アーカイブし|マークし)
      (?:[てで](?:ね|よ|もらえ\w*|いただけ\w*|くれ\w*)?|なさい)(?=\s*(?:[\u3002\uff01!]|$))
    | (?:探す|調べる|表示する|検索する|抽出する|出力する|印刷する)(?=\s*(?:[\u3002\uff01!]|$))
    | [をの](?:検索|表示|抽出|一覧|一覧表示|出力|印刷|リストアップ|リスト|エクスポート|集計|比較
      |確認)(?=\s*(?:[\u3002\uff01!]|$))
"""
_COMMAND: Final = late_pattern(
    rf"""(?:^|[.,;!:\n]\s*|\s[-\u2013]\s)[\s¡"'(*-]*(?:
        (?:{_ENGLISH}) | (?:{_GERMAN}) | (?:{_FRENCH}) | (?:{_SPANISH}) | (?:{_PORTUGUESE})
      | (?:{_ITALIAN}) | (?:{_DUTCH})
    ) | {_CHINESE} | {_JAPANESE}""",
    re.VERBOSE | re.IGNORECASE,
)


def is_command(message: str) -> bool:
    """Whether a clause of a message commands something."""
    return _COMMAND.search(message) is not None
