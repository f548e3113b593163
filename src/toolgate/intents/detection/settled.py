"""Recognize messages whose matter is settled, is praised or concerns other people only.

"Found my card, it was in my coat", "what a lovely evening" and "my cousin is with another bank,
can you imagine" have the words of a request. A message counts as such if it says so, and nothing
else in it commands, asks, doubts or names a defect: "the parcel arrived, but it is torn" is a
request. Rules for English, German, French, Spanish, Portuguese, Italian, Dutch, Chinese and
Japanese.
"""

import re
from typing import Final

from toolgate.intents.detection.commands import is_command
from toolgate.intents.detection.mentions import asks_for_something
from toolgate.intents.patterns import late_pattern

# Gaps are looked at and not consumed: "hasn't turned up" must leave its negation to be read.
_SETTLED: Final = late_pattern(
    r"""\b(?:
        (?<!\bget\ )sorted(?!\ (?:by|in|on|list|alpha\w*|asc\w*|desc\w*|after|from)\b)
      | (?:is|are|been|got|was|were|now|all|['’]s|['’]re)\ (?:now\ |all\ |already\ )*
        (?:fixed|mended|repaired|solved|resolved|settled|dealt\ with|taken\ care\ of
          |back\ (?:on|up|online|to\ normal)|up\ and\ running|working\ again)
      | (?:works?|working|runs?|running)\ (?:fine|perfectly|well|smoothly|great|sweet\w*|again)
        (?:\ again|\ now)?
      | (?:have\ |['’]ve\ |just\ |now\ |finally\ |(?<=i\ )|(?<=we\ )|(?<=^))
        found\ (?:(?:my|our|the\ (?:missing|lost))\ (?:\w+\ )?\w+|it|them|mine)
        (?=\s*[,.!;]|$|\ (?:in|under|at|behind|inside|again|now|after|myself|thanks|this|last
          |yesterday|today)\b)
      | (?:it|they|he|she|the|my|our|that|those|these)\b(?=[^.!?;,]{0,50}?[ ]
        (?:turned\ up|came\ home|come\ home|resurfaced)
          (?:\s*[,.!;]|$|\ (?:behind|under|in|at|this|last|yesterday|today|again|safe\w*|now|fine
          |and
            |by|thanks)\b))
      | (?:came|come|arrived|worked|went|made\ it)\b(?=[^.!?;,]{0,40}\ after\ all\b)
      | (?:arrived|came)\ (?:safely|(?:this|yesterday)\ \w+|yesterday|today|on\ time|on\ \w+day)
        (?=[\s,.!;]*(?:$|thank|cheers|all\b|every|lovely|perfect|great))
      | (?:never\ mind|scrap\ that|forget\ it)(?=\s*[,.!;:]|$)
      | false\ alarm | panic\ over | no\ harm\ done | problem\ solved | all\ done
          | done\ and\ dusted
      | all\ (?:is\ |looks?\ )?(?:good|well|fine|clear|in\ order|ok|okay|better|set|forgiven)
      | everything(?:['’]s|\ is|\ went|\ looks)\ (?:fine|good|okay|ok|perfect|well|in\ order)
      | (?:i|we)(?:['’]re|['’]m|\ are|\ am)\ (?:all\ )?(?:good|set|covered|sorted)(?!\ (?:at|for
          |with)\b)
      | fully\ recovered
      | nothing\ (?:else\ |more\ |further\ |left\ )*(?:is\ )?(?:needed|required|to\ (?:do|ask
          |worry))
      | no\ (?:further\ |more\ )?(?:action|follow-?up|answer)\ (?:is\ )?(?:needed|required
          |necessary)
      | (?:no\ longer|not)\ (?:needed|required|necessary|an\ issue|a\ problem)(?:\ any\ ?more)?
      | no\ need\ (?:to\ (?!(?:reply|respond|answer|call|ring|write|thank|say|rush|hurry|be)\b)\w+
          |for\b[^.!?;,]{1,40})(?:\ any\ ?(?:more|longer))?
      | (?:nobody|no\ one)\ needs\ to
      | (?:ignore|disregard)\ (?:me\b|it\b|this\b|that\b|(?:my|our|the\ (?:last|previous
          |earlier))\ \w+)
      | (?:you\ (?:can|may)\ (?:now\ |just\ |also\ )*|(?:feel\ free|happy\ for\ you)\ to\ )close
        \ (?:it|(?:the|my|this|that|our)\ (?:ticket|case|request|issue|tab))
      | closing\ (?:the|my|this|that|our)\ (?:ticket|case|request|issue|tab)
      | already\ (?!tried|call|wait|ask|complain|report|phone|wrote|written|explain|told|tell|need
          |clos|start|stop|seen)(?:been\ |gone\ )?
          (?:\w+ed|paid|sold|bought|sent|got|had|done|made|taken|gone|dealt)
      | (?:i|we)(?:['’]ve|\ have)?\ (?:just\ |now\ )?(?:renewed|collected|picked\ up|paid
        \ (?:it|them|online|in\ full|everything|(?:the|my|our|your)\ (?:\w+\ )?(?:invoice|bill
          |rent|fee
          |fine|balance|deposit|premium|order)s?)\b)
      | (?:did|fixed|mended|deployed|renewed|sent|ordered|booked|paid|installed|changed|solved
          |managed|bought|repaired|replaced|cleaned)\ (?:\S+\ ){1,4}(?:myself|ourselves)
      | (?:went|got|had|came|bought|ordered|worked|fine|managed|sold|given|gave|fixed)\b
        (?=[^.!?;]{0,60}\b(?:in\ the\ end|instead)\b)
      | (?:sold|bought|got|had|ordered)\b(?=[^.!?;]{0,40}\b(?:elsewhere|somewhere\ else)\b)
      | decided\ (?:to\ (?:keep|stay|leave|live\ with)|against|not\ to)
      | keeping\b[^.!?;,]{1,40}\bas\ (?:it\ is|they\ are|planned)
      | turned\ out\ to\ be\ (?:just|only|my|next|nothing|the\ neighbour)

      | (?:hat|haben)\ sich\ (?:damit\ |somit\ |schon\ |inzwischen\ |jetzt\ |also\ )*
        (?:erledigt|geklärt|gelöst|aufgeklärt) | (?:alles|schon|bereits|ist|sind|damit)\ (?:erledigt
          |geklärt|geregelt|bezahlt|repariert|behoben) | fehlalarm | falscher\ alarm
      | alles\ (?:ist\ |läuft\ )?(?:wieder\ )?(?:gut|bestens|in\ ordnung|okay|ok|klar|prima|super)
      | (?:wieder|inzwischen|doch\ noch)\ (?:\w+\ )?(?:aufgetaucht|gefunden|da|gesund|heimgekommen
          |zurück|in\ ordnung|fit) | (?:geht|läuft|funktioniert|klappt)\ (?:jetzt\ |alles\ )?wieder
      | wiedergefunden | nicht\ mehr\ (?:nötig|notwendig|gebraucht|benötigt|erforderlich)
      | (?:brauche|brauchen)\b[^.!?;,]{1,40}\b(?:nicht\ mehr|nichts\ (?:mehr\ )?(?:zu\ )?(?:tun
          |machen))
      | (?:müssen|brauchen|musst|brauchst)\ (?:sie\ |also\ |du\ |sich\ )*(?:nichts
          |nicht)\ (?:mehr\ )?
        (?:zu\ )?(?:tun|machen|unternehmen|kommen|suchen|schicken)
      | (?:schon|bereits|inzwischen|gestern|selbst|selber)\ (?:\w+\ ){0,3}(?:überwiesen|bezahlt
          |abgeholt
          |erhalten|bekommen|gekauft|verkauft|repariert|eingebaut|zurückgegeben|verlängert
          |angekommen
          |gemacht|storniert) | alles\ (?:beim\ alten|,?\ wie\ es\ ist)
      | (?:ist|sind)(?=\ (?:heute|gestern|eben|gerade|jetzt|gut|heil|pünktlich|wohlbehalten)
        (?:\ \w+){0,3}\ (?:angekommen|eingetroffen)\b)
      | bleibt?\ (?:alles\ |also\ |es\ |so\ )*(?:dabei|so|wie\ (?:es|er|sie)\ (?:ist|war))
      | (?:kein|keine|keinen)\ \w+\ mehr\ (?:nötig|notwendig) | versorgt

      | c['’]est\ (?:bon|réglé|arrangé|fait|résolu|tout\ bon|réparé) | (?:tout|bien)\ est\ (?:réglé
          |arrangé|en\ ordre|rentré\ dans\ l['’]ordre|parfait|clair) | tout\ (?:va|se\ passe)\ bien
      | fausse\ alerte | (?:re)trouvée?s?\ (?:finalement|au\ fond|dans|chez|sous|derrière|entre)
      | (?:l['’]|les\ |j['’]|on\ |nous\ |elle\ |il\ )(?:ai|a|avons|avait|as)\ (?:\w+\ )?retrouvée?s?
      | (?:plus|pas)\ (?:besoin|la\ peine)\ d(?:e|['’])(?:\ ?\w+){0,4}
      | n['’](?:ai|avons|a|avez)\ (?:plus|pas)\ besoin | déjà\ (?:été\ )?(?:payée?|reçue?|réglée?
          |fait
          |faite|récupérée?|réparée?|commandée?|achetée?|envoyée?|déposée?|résolue?|rendue?)s?
      | (?:bien\ reçu|bien\ arrivée?s?) | finalement\ (?:je|on
          |nous)\ (?:le\ |la\ |les\ )?(?:garde\w*
          |reste\w*|(?:ai|a|avons)\ (?:trouvé|acheté|réparé)) | (?:remarche|refonctionne)\w*
      | (?:marche|fonctionne)\ (?:de\ nouveau|à\ nouveau)
      | (?:rien|plus\ rien)\ (?:d['’]autre\ )?à\ (?:faire|signaler)

      | (?:ya\ )?(?:está|quedó|están)\ (?:todo\ )?(?:arreglad|solucionad|resuelt|pagad|list)[oa]s?
      | todo\ (?:está\ )?(?:bien|perfecto|en\ orden|arreglado|correcto|solucionado) | falsa\ alarma
      | (?:ya\ )?(?:lo|la|los|las)\ (?:he\ |hemos\ )?(?:encontr(?:é|ado|amos)|recog(?:í|ido)
          |pagu?(?:é|ado)|recib(?:í|ido)|firm(?:é|ado)|solucion(?:é|ado|amos)|arregl(?:é|ado|amos))
      | ya\ (?:me\ |nos\ )?(?:pagué|pagamos|compré|compramos|recogí|recogimos|recibí|recibimos
          |llegó|llegaron|encontré|apareció|aparecieron|arreglé|funciona|he\ \w+[ai]do
          |hemos\ \w+[ai]do)
      | (?:ya\ )?no\ (?:hace\ falta|es\ necesario|hay\ que|se\ necesita|lo\ necesito|necesito
          |necesitamos)
        (?:\ (?:que\ )?\w+){0,3} | al\ final\b[^.!?;]{0,60}?\b(?:\w{2,}ó|arregla|compré|vendí
          |encontré|nos\ quedamos|me\ quedo) | apareció\ (?:en|debajo|detrás|sol[oa])

      | (?:já\ )?(?:está|ficou|estão)\ (?:tudo\ )?(?:resolvid|arranjad|consertad|pag|trata)[oa]s?
      | tudo\ (?:está\ )?(?:bem|certo|resolvido|em\ ordem|ok) | falso\ alarme | alarme\ falso
      | já\ (?:me\ |o\ |a\ )?(?:paguei|pagámos|pagamos|comprei|comprámos|compramos|recebi|recebemos
          |peguei|levantei|fiz|fizemos|encontrei|achei|chegou|chegaram|apareceu|resolvi|resolvemos
          |consertei|arranjei|tratei|está\ (?:a\ )?funciona\w*|voltou)
      | já\ (?:foi|foram)\ (?:pag|entregu|resolvid|arranjad|consertad|tratad|levantad|enviad)[oae]s?
      | não\ (?:é\ mais\ preciso|preciso\ mais|precisamos\ mais|vou\ precisar|é\ preciso
          |precisa\ mais)
      | (?:já\ )?não\ (?:preciso|precisamos|é\ necessário) | afinal\ (?:não|já|era|ficamos|fico)
      | (?:funciona|funcionando|a\ funcionar)\ (?:de\ novo|outra\ vez) | apareceu\ (?:em|no|na
          |debaixo)

      | (?:è|sono|tutto)\ (?:già\ |stat[oa]\ |ora\ |tutto\ )*(?:risolt|sistemat|riparat|pagat
          |a\ posto
          |in\ ordine|apposto)[oaie]? | (?:va|tutto)\ (?:tutto\ )?bene | falso\ allarme
      | (?:ho|abbiamo|l['’]ho|li\ ho|le\ ho)\ (?:già\ |poi\ |appena\ )*ritrovat[oaie]
      | (?:ho|abbiamo|è|sono|l['’]ho)\ già\ (?:\w+[aiu]to|\w+[aiu]ta|fatto|preso|arrivat[oaie]
          |stat[oa])
      | non\ (?:serve|servono|occorre|è\ necessario|ho\ (?:più\ )?bisogno|mi\ serve)\ (?:più)?
      | alla\ fine\b[^.!?;]{0,60}?\b(?:ho|ha|abbiamo|tengo|teniamo|resto|restiamo)
      | scusate\ il\ disturbo | funziona(?:no)?\ di\ nuovo | saltat[oaie]\ fuori

      | (?:is|zijn|alles|al|inmiddels|weer)\ (?:al\ |nu\ |inmiddels\ |weer\ |allemaal\ )*(?:opgelost
          |geregeld|betaald|gerepareerd|gemaakt|in\ orde|terecht|gevonden|afgehandeld|teruggevonden)
      | alles\ (?:is\ |gaat\ )?(?:goed|prima|in\ orde|oké|ok) | vals\ alarm | loos\ alarm
      | (?:hoeft?|hoeven)\ (?:\w+\ ){0,3}(?:niet|niets|niks)\ (?:meer\ )?(?:te\ \w+|meer|bij)?
      | niet\ (?:meer|langer)\ nodig | (?:doet\ het|werkt|werken)\ (?:\w+\ ){0,3}?weer
      | (?:is|zijn)\b(?=(?:\ \w+){0,6}?\ (?:aangekomen|binnengekomen|bezorgd)\b) | (?:toch
          |weer)\ (?:gevonden
          |opgedoken|boven\ water|thuis) | (?:heb|hebben)\ (?:\w+\ ){0,4}?(?:zelf
          |al)\ (?:\w+\ ){0,2}?
          ge\w{3,} | zijn\ voorzien
    )(?!\w)
      | (?:已经?|都|刚刚?|终于|自己)[^,\uff0c。!\uff01?\uff1f吗没]{0,10}(?:收到|找到|解决|修好
          |处理好|搞定|付|买到?
          |取|弄好
          |办好|讲清楚|好)了 | (?:修|弄|搞|处理|办)好了 | 虚惊一场 | (?:没事|没问题|没有问题)了?
          | 搞定了 | 解决了 | 找到了 | 收到了(?!一)
      | 不(?:用|需要|必)(?:再)?[^,\uff0c。!\uff01?\uff1f]{0,6}了
          | 不用再[^,\uff0c。!\uff01?\uff1f]{0,6} | 刚好
      | (?:見つか|出てき|戻ってき|届き|受け取り|受取り|解決し|直り|治り|済み|終わり|終え|復旧し
          |間に合い)
        (?:り)?(?:ました|ています|済みです) | (?:見つかった|届いた|直った|済んだ|解決済み)(?:ので
          |の?で)
      | (?:支払い?済み|済みです|対応済み) | (?:もう|すでに|既に)[^。!\uff01?\uff1f]{0,10}
        (?:払|買|返|受け取|済|終|手続|解決|購入|予約|申し込|直
          |治)[^。!\uff01?\uff1f]{0,6}(?:ました|ています
          |済み)
      | 必要(?:は|が)?(?:もう)?(?:ありません|ない(?:です)?|なくなりました) | 不要(?:です
          |になりました)
      | 結構です | お騒がせ(?:いた)?しました | 大丈夫(?:です|でした|になりました)(?!か)
      | 勘違いでした | 助かりました
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""The matter is done with, or nothing needs to be done."""

_PRAISED: Final = late_pattern(
    r"""\b(?: (?:what\ an?|such\ an?|(?:was|were|been|looks?|looked|['’]re|is|are|['’]s|it)
          \ (?:(?:so|really|very|absolutely|just|all|an?|quite|the|simply|truly)\ )*)
        \ ?(?:lovely|beautiful|wonderful|gorgeous|brilliant|fantastic|amazing|delicious|perfect
          |superb
          |marvellous|excellent|delightful|charming|dream|delight|treat|joy|highlight|pleasure)
      | went\ (?:ahead\ )?(?:fine|well|smoothly|perfectly|great)
      | (?:loved|adored|enjoyed)\ (?:it|them|every) | rides?\ like\ new
      | (?:war|waren|ist|sind)\ (?:(?:so|sehr|echt|wirklich|einfach|ganz|ein|eine|der|die|total)\ )*
        (?:toll|wunderbar|traumhaft|traum|herrlich|wunderschön|großartig|klasse|spitze|lecker
          |köstlich
          |genial|fantastisch|perfekt|reizend|genuss|erlebnis|highlight)
      | (?:(?:était|étaient|est|sont)\ (?:(?:très|vraiment|si|tout|un|une|le|la|simplement)\ )*)
        (?:parfait|délicieu|merveilleu|magnifique|superbe|génial|excellent|vrai\ bonheur|régal
          |délice)\w*
      | bravo\ (?:à|pour) | s['’](?:est|sont)\ (?:très\ )?bien\ passée?s?
      | (?:fue|fueron|estuvo|estaba|ha\ sido|es|era)\ (?:(?:muy|un|una|todo|simplemente
          |realmente)\ )*
        (?:maravillos|precios|estupend|perfect|delicios|fantástic|genial|excelente|encanto
          |placer)\w*
      | va\ de\ maravilla
      | (?:foi|foram|estava|estavam|é|ficou)\ (?:(?:muito|um|uma|tudo|o|a|simplesmente)\ )*
        (?:maravilhos|lind|perfeit|delicios|fantástic|excelente|ótim|espetacular|melhor)\w*
      | (?:era|erano|è\ stat[oa]|sono\ stat[ie]|è)\ (?:(?:molto|davvero|un|una|tutto|proprio)\ )*
        (?:bellissim|meraviglios|perfett|delizios|fantastic|splendid|ottim|stupend|squisit)\w*
      | complimenti\ (?:a|per)
      | (?:was|waren|is|zijn)\ (?:(?:heel|erg|echt|zo|een|de|het|helemaal)\ )*
        (?:prachtig|geweldig|heerlijk|fantastisch|perfect|schitterend|verrukkelijk|top)e?
    )\b | (?:太|很|真|非常)(?:棒|好吃|美味|精彩|开心|满意|漂亮|舒服) | (?:と?ても|本当に
          |すごく)[^。、]{0,8}
      (?:素敵|美味し|おいし|楽し|きれい|綺麗|嬉し|よか)\w*(?:です|でした|た)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Praise for what was or is."""

_OTHERS: Final = late_pattern(
    r"""(?:^|[.,;!:]\s*|\b(?:and|but|that|und|et|y|e|en)\s)(?:
        (?:my|our)\ (?:\w+\ )?(?:sister|brother|cousin|neighbour|neighbor|friend|mate|uncle|aunt
          |nephew|niece|colleague|flatmate|roommate|dad|mum|mom|boss|husband|wife|in-law)s?
      | (?:mein|unser)\w*\ (?:\w+\ )?(?:schwester|bruder|cousine?|nachbar|freund|onkel|tante|neffe
          |nichte
          |kolleg|schwager|schwägerin|mitbewohner)\w*
      | (?:mon|ma|mes|notre|nos)\ (?:sœur|soeur|frère|cousine?|voisine?|amie?|oncle|tante|neveu
          |nièce
          |collègue|beau-frère|belle-sœur|copain|copine)s?
      | (?:mi|mis|nuestr[oa]s?)\ (?:herman|prim|vecin|amig|tí|sobrin|cuñad|compañer)[oa]s?
      | (?:[oa]s?\ )?(?:meus?|minhas?|noss[oa]s?)\ (?:irmão|irmã|prim[oa]|vizinh[oa]|amig[oa]|ti[oa]
          |sobrinh[oa]|cunhad[oa]|colega)s?
      | (?:il\ |la\ |i\ |le\ )?(?:mi[oae]i?|nostr[oaie])\ (?:sorella|fratello|cugin[oa]|vicin[oa]
          |amic[oa]
          |zi[oa]|nipote|cognat[oa]|collega)
      | (?:mijn|onze)\ (?:zus|broer|neef|nicht|buur\w*|vriend\w*|oom|tante|collega|zwager)s?
    )\b | (?:我(?:的|们的?)?|俺の?|私の?|うちの)(?:朋友|同事|邻居|姐姐|妹妹|哥哥|弟弟|表哥|表姐|亲戚
      |友達|友人|同僚|隣人|姉|妹|兄|弟|いとこ)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Other people, of whom a message tells."""

_ELSEWHERE: Final = late_pattern(
    r"""\b(?: (?:with|at|from|by|for|to|in|of)\ (?:an?other|(?:a|some)\ (?:different|other|rival)
          |(?:that|the)\ other|some)\ (?:\w+\ )?(?:company|firm|place|shop|store|supplier|courier
          |bank
          |dentist|doctor|hospital|school|bakery|garage|agency|provider|club|farm|hotel|vet|one|gym
          |insurer|landlord|airline|restaurant|lot|branch)
      | down\ the\ road | across\ the\ road | up\ north | elsewhere
      | (?:another|different)\ (?:supplier|company|firm|courier|bank|provider)
      | bei\ (?:eine[mr]\ |de[mr]\ )?ander\w+ | woanders | anderswo
      | (?:chez|avec|dans|par)\ (?:un|une|d['’])\ ?autres? | ailleurs | ancien\ employeur
      | (?:con|en|de|por)\ otr[oa]s? | (?:com|em|de|por)\ outr[oa]s? | (?:n|d)(?:um
          |uma)?\ ?outr[oa]s?
      | (?:con|in|da|di)\ un['’]?\ ?altr[oa] | altrove
      | (?:bij|van|met|door)\ (?:een\ |die\ |de\ )?andere? | ergens\ anders
    )\b | 别(?:家|的(?:店|公司|银行)) | 另一家 | 其他(?:店|公司) | (?:他|ほか|別|よそ)の(?:店|会社
          |銀行|病院|所)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Another firm than the one that is written to."""

_ASIDE: Final = late_pattern(
    r"""\b(?: can\ you\ (?:imagine|believe) | poor\ (?:thing|soul|man|woman|chap|love|boy|girl
          |dear)s?
      | bless\ (?:him|her|them) | lucky\ \w+ | (?:a?ha){2,}h? | lol | how\ (?:posh|funny|sweet
          |lovely)
      | typical | jealous | (?:s?he|they)\ (?:adores?|loves?|hates?|swears?\ by)\ (?:it|them)
      | over\ the\ moon | dreading | glad\ (?:we|i|it|ours|that|you) | you['’]d\ never
          | told\ \w+\ so
      | just\ saying | by\ the\ way | shocking | never\ again | thrilled | chuffed
      | verrückt | stell(?:t|en)?\ (?:dir|euch|sie\ sich)\ (?:das\ )?(?:mal\ )?vor | (?:der
          |die)\ ärmste
      | unglaublich | kaum\ zu\ glauben | typisch | geschieht\ ihm\ recht | zum\ glück\ (?:sind
          |bin)[ ]
      | (?:le|la|les)\ pauvres? | quelle\ (?:époque|histoire) | quel\ (?:bazar|cirque) | incroyable
      | figurez-vous | vous\ imaginez | la\ chance
      | qué\ (?:poca|desastre|lío|risa|suerte|envidia|vergüenza|locura) | menud[oa]
          | pobre(?:cit[oa])?
      | increíble | imag[ií]n[ae](?:te|se)? | que\ (?:sorte|inveja|loucura|vergonha) | coitad[oa]
      | inacreditável | imagin[ae] | devia\ ver | roba\ da\ matti | che\ (?:fortuna|invidia
          |vergogna)
      | poverin[oa] | incredibile | pensa(?:te)?\ un\ po['’] | (?:wat\ een|die)\ (?:pech|geluk
          |stakker)
      | ongelofelijk | typisch | gelukkig\ (?:zitten|zijn|ben)
    )\b | 还是你们 | 太(?:夸张|惨|可怜)了? | 真(?:羡慕|可怜) | 羨ましい | かわいそう | びっくり
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A remark of somebody who tells a story."""

# "No need to reply" also ends reports of problems, so it settles nothing by itself.
_IDLE: Final = late_pattern(
    r"""\b(?: (?:please\ |kindly\ )?(?:just\ )?(?:do\ not|don['’]t|dont)\ (?:send|bother|count
          |worry)\b
        [^.!?;]{0,40} | please(?=\ (?:just\ )?(?:ignore|disregard))
      | can\ you\ (?:imagine|believe)(?:\ (?:it|that))? | no\ need\ (?:to|for)\ \w+(?:\ (?:back
          |it))?
      | (?:won['’]t|will\ not|don['’]t|do\ not|no\ longer)\ (?:be\ )?need(?:ing)?\b
      | (?:aren['’]t|are\ not|not)\ looking\ for\b | (?:no|nothing)\ (?:\w+\ )?needed
      | (?:sie|du|ihr)\ (?:brauchen|brauchst|braucht|müssen|musst|müsst)\ (?:sich\ |also\ )*
        (?:nichts?|keine?n?)\b | brauch(?:e|en)\ (?:ich|wir)\ (?:nichts?|keine?n?)\b
      | (?:ich|wir)\ brauch(?:e|en)\b[^.!?;,]{0,30}\b(?:nicht|nichts|keine?n?)\b(?:\ mehr)?
      | (?:ne|n['’])\ ?\w+\ (?:plus|pas)\ besoin | (?:pas|plus)\ besoin
      | no\ (?:se\ )?necesit\w+ | não\ (?:vou\ )?precis\w+(?:\ mais)? | non\ serv\w+
          | non\ .{0,12}bisogno
      | niet\ (?:meer\ )?nodig | (?:hoeft?|hoeven)\b[^.!?;]{0,20}\bniets?
    )\b | 不(?:需要|用|必要?)再?
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Words of requests where nothing is asked."""

_DEMANDED: Final = late_pattern(
    r"""(?:^|[.,;!:]\s*|\b(?:and|then|so|now|also|to|just)\ )
      (?: send|tell|give|book|cancel|check|call|order|reserve|put|update|get|sign|confirm|transfer
        |pay|block|unblock|register|move|extend|renew|print|refund|bring|take|arrange|schedule|start
        |stop|set|approve|accept|publish|release|ship|forward|deploy|run|has|have(?!\ a\ good\b)
        |is|are|did|does|do
      )(?=\ (?:me|us|it|him|her|them|a|an|the|my|our|your|for|this|that|in|up|anyone|any|to)\b)
      | (?:^|[.,;!:]\s*)(?: lösch|entfern|stornier|kündig|schick|send|buch|änder|verlänger
        |supprim|annul|retir|envoi|envoy|réserv|chang|elimin|borr|quit|cancel|anul|envía|envi|mand
        |reserv|cambi|apag|remov|mud|cancell|rimuov|disdi|invi|prenot|verwijder|annuleer|schrap
          |stuur
        |boek|wijzig
      )(?:e|a|i|en|es|ez|er|t|ci)?(?:\ |$)
      | \b(?: (?:i|we|he|she)(?:['’]d|\ would)\ (?:like|love) | hope | hoping | thought | supposed
        | one\ more | twice | how\ (?:do|much|many|long|can|to) | when | where | why | which
          | whether
        | what(?!\ an?\b)
        | wann | wie\ (?:viel|lange|kann) | welche\w* | quand | comment | combien
        | cuándo | cómo | cuánto | quando
      )\b
      | 怎么|什么|多少|几|想|删|取消|退 | ください|下さい|お願い|たい(?:です|の|と|。|$)
          |か[。?\uff1f]?$
      | ですか|ますか|でしょうか|ほしい|欲しい|取り消|取消|削除
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Requests and questions, besides those of `asks_for_something`."""

# There are too many words for defects to list them all, so contrasts count too.
_DOUBTED: Final = late_pattern(
    r"""\b(?: but(?!\ (?:thanks|thank|no\ need|cheers)) | however | although | though
          | unfortunately
      | still(?!\ (?:the|talk|all|going|smil)) | yet | except | not | \w+n['’]t | never | nobody
          | none
      | unhappy | disappoint\w+ | angry | complain\w* | unacceptable | wrong | broken? | scratched
      | charged | stained | damaged | smashed | cracked | torn | empty | dirty | cold | late
          | weeks | again | (?<!longer\ )(?:leak|drip|fail|crash)\w* | instead\ of
      | missing(?=\ (?:a|one|two|from|in|on)\b)
      | too\ (?:much|many|small|big|large|high|late|short|long|tight|loud)
      | aber | weiterhin | doch\ nur | jedoch | leider | trotzdem(?!\ (?:danke|vielen)) | nicht
      | noch\ (?:immer|nicht|kein\w*) | keine?[nmrs]? | falsch\w* | kaputt\w* | beschädigt\w*
      | fehlt | fehlen | defekt\w* | zu\ (?:klein|groß|spät|hoch|viel|wenig)
      | mais(?!\ merci) | encore(?=\ (?:pas|rien|bloqué|en\ panne|cassé)) | cependant
          | malheureusement | pas | jamais
      | cassée?s? | abîmée?s? | manque\w* | trop | erreur
      | pero(?!\ (?:gracias|al\ final)) | sin\ embargo | sigue\w* | todavía | aún
      | no(?=\ (?:funciona|llega|ha|me|se|puedo|he|está|tengo)) | rot[oa]s? | equivocad\w+ | nunca
      | demasiado
      | mas(?!\ obrigad) | porém | ainda(?!\ fal) | continua\w* | errad[oa]s? | quebrad[oa]s?
          | partid[oa]s?
      | não(?=\ (?:funciona|chegou|recebi|consigo|está|posso)) | faltam?
      | (?<=,\ )ma(?!\ grazie) | però | purtroppo | ancora | rimane | mai(?=\ (?:arrivat|ricevut
          |stat))
      | non(?=\ (?:funziona|arriva|è|ho|mi|ha|riesco|va)) | rott[oaie] | sbagliat[oaie]
          | manca(?:no)?
      | maar(?!\ (?:bedankt|toch\ bedankt)) | helaas | blijft | niet | geen | nog\ steeds | kapot
      | beschadigd | verkeerde? | ontbre\w+ | te\ (?:klein|groot|laat) | nooit
    )\b
      | 但|可是|不过(?!昨|已)|没有?(?!事|问题)|坏|错|破|缺
      | のに|ですが|ましたが|けど|\sが|まだ|壊|割|止ま|なくな|違|虫
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Contrasts and defects, which report a problem."""

_DESCRIBED: Final = late_pattern(
    r"""(?: \b(?:that|which|who)\ (?:are|were|have|look)\b
      | \b(?<!what\ )(?<!such\ )(?:an?|the|any|every|each|some|no)\ (?:\w+\ ){1,3}(?:that|which|who)
        \ (?:is|was|has|looks)\b
      | (?<=\w)\ qui\ (?:sont|est|ont|a|étaient|était)\b
      | (?: (?<=s)\ que | \b(?:una?|uma?|cada|tod[oa])\ (?:\w+\ ){1,3}que )\ (?:ya\ |já\ )?
        (?:están?|fueron|fue|han|ha|son|es|foram|foi|estão|são|é)\b
      | (?: (?<=[ei])\ che | \b(?:una?|ogni)\ (?:\w+\ ){1,3}che )\ (?:sono|è|hanno|ha|erano|era)\b
      )(?:\ (?:been|already|now|all|so|really|very|déjà|bien|tout|été|ya|já|tod[oa]s?|già
        |stat[ei]))*\ \w+
      | \b(?!(?:was|this|has|always|thanks)\b)\w{3,}s\ already\ (?:\w+ed|paid|sold|sent|made|bought)
        (?=\s*(?:[.!]|$|\ (?:by|in|to|for|from|since)\b))
      | ,\ (?:die|der|das|welche[rs]?)\ [^.,!?;]{1,60}\b(?:sind|ist|wurden?|waren?|haben|hat)
        (?=\s*(?:[.,!?;]|$))
      | \b\w+en,?\ die\ (?:(?:\w+\ ){1,3}(?:zijn|is|waren|werden)\b | (?:zijn|is)\ \w+\ \w+)
    | 已[^\uff0c\u3002\uff01,]{1,10}了?的(?=\w) | (?:支払い?|対応|解決|処理|発送)済みの
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Relative clauses and participles, which say of what kind a thing is."""

_LONGEST: Final = 4_000
"""Messages with more characters are not examined (chosen)."""


def is_settled(message: str) -> bool:
    """Whether a message asks for nothing, since its matter is settled, praised or of others."""
    if len(message) > _LONGEST:
        return False
    of_others = _tells_of_others(message)
    told = _DESCRIBED.sub(" ", message)
    if not of_others and _SETTLED.search(told) is None and _PRAISED.search(told) is None:
        return False
    # What settles a matter may have words of requests or negations itself: "no need to come".
    rest = _SETTLED.sub(" ", _IDLE.sub(" ", message))
    # A story about others may have any defect in it.
    if is_command(message) or asks_for_something(rest):
        return False
    return of_others or not (_DEMANDED.search(rest) or reports_problem(rest))


def reports_problem(text: str) -> bool:
    """Whether a text has a contrast or names a defect, so that it may report a problem."""
    return _DOUBTED.search(text) is not None


def _tells_of_others(message: str) -> bool:
    is_elsewhere = _ELSEWHERE.search(message) is not None
    is_aside = _ASIDE.search(message) is not None
    if _OTHERS.search(message) is not None:
        return is_elsewhere or is_aside
    return is_elsewhere and (is_aside or _IDLE.search(message) is not None)
