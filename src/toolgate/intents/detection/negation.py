"""Find the parts of a message that decline, quote or only mention something, or ask its wording.

"Don't create a relation, make a value list" asks for a value list, and "how do I spell relation"
for neither. Rules for English, German, French, Spanish, Portuguese, Italian, Dutch and Chinese;
a message in another language is left unchanged.
"""

import re
from typing import Final

from toolgate.intents.detection.mentions import asks_for_something, is_mention
from toolgate.intents.detection.quotations import without_quotations
from toolgate.intents.detection.settled import reports_problem
from toolgate.intents.detection.statements import is_remark
from toolgate.intents.patterns import late_pattern

_CLAUSE: Final = late_pattern(
    r"""[.;!?\n。;!?]+\s*|[,,]\s*
      | (?<!\s)\s++(?:but|sondern|aber|sino|pero|ma|mas|porém|maar)\s+
      | (?<!precisa)(?<!preciso)(?<!quero)(?<!precisamos)(?<!\s)\s++mais\s+""",
    re.VERBOSE | re.IGNORECASE,
)
"""Separators between two clauses."""

_REQUESTED: Final = late_pattern(
    r"""\b(?: why\ (?:don't|dont|do\ not)\ (?:you|we) | (?:don't|do\ not|dont)\ forget
      | vergiss\ nicht | nicht\ vergessen | warum\ nicht
      | n'?oublie[zs]?\ pas | no\ (?:te\ )?olvid(?:es|e|ar)
      | não\ (?:se\ )?esque[çc](?:a|as) | non\ dimentica(?:re|te)? | vergeet\ niet
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
"""Negations that are requests."""

_DECLINED: Final = late_pattern(
    r"""^(?:(?:and|so|well|ok(?:ay)?|no|oh|also|und|nein|et|non|y|e|não|en|nee)[\s,]++)*
    (?: (?:please\s+)?(?:do\ not|don['’]?t|dont|never)\s+
        (?!you\b(?!\ dare\b)|know\b|understand\b|see\b|have\b)\w
      | (?:i|we|you)\ (?:really\ |certainly\ )?(?:do\ not|don['’]?t|dont|did\ not|didn['’]?t)
        \s+(?:want|need|mean|care|like|ask)\b
      | (?:i['’]?m|i\ am|we\ are|we['’]re)\ not\ (?:asking|looking|interested|talking|after)\b
      | (?:you\ )?(?:need\ not|needn['’]?t|don['’]?t\ (?:need|have)\ to)\b
      | (?:forget|never\ mind|scratch)\ (?:about\ )?(?:that|this|it|the|my|our)\b
        (?!.{0,40}\b(?:and|then)\b)
      | (?:never\ mind|hold\ off|keep\ away|hands\ off)\b | let['’]?s\ not\b | not\ now\b
      | (?:please\ )?(?:leave|keep)\b.{1,50}\b
        (?:alone|be|as\ (?:it\ is|they\ are|is)|untouched|unchanged
          |the\ way\ (?:it\ is|they\ are))\b
      | (?:i|we)\ (?:can|could|will|['’]ll)\ (?:\w+\ )?(?:do|live|manage|get\ by)\ without\b
      | nothing\ (?:needs|has)\ to\b | hold\ (?:the|that|this|it)\b | (?:better|rather)\ not\b
      | (?:i|we)(?:['’]d|\ would)\ (?:rather\ )?leave\b | .{1,60}\bcan\ (?:stay|remain)\b
      | .{1,60}\b(?:is|are)\ not\ to\ be\ \w+ed$
      | (?:i|we)\ (?:would|['’]d)\ rather\ not\b | (?:i|we)\ (?:won['’]t|will\ not)\ (?:need|want)\b
      | .{1,60}\b(?:isn['’]?t|is\ not|aren['’]?t|are\ not|won['’]t\ be|not)
        \ (?:needed|necessary|wanted)\b
      | .{1,60}\b(?:no\ longer|not)\ (?:needed|necessary|required|of\ interest)\b
      | no\ (?:more\ )?(?:thanks|thank\ you)\b
      | no\ (?:new|more|further)\ (?!than\b)\w
      | (?:i|we)\ (?:no\ longer|can['’]?t)\ (?:need|want|require)\b
      | no\ (?:\w+\ ){1,3}(?:needed|required|wanted|necessary)\b
      | (?:please\ |kindly\ )*refrain\ from\b
      | (?:there\ is\ )?no\ need\ (?:to|for)\b | not\ (?:a|an|the|any|my|our|this|that)\b
      | (?:stop|forget|skip|ignore|cancel)\ (?:about\ )?(?:it|that|this)\b
      | (?:instead\ of|rather\ than|without)\b
      | (?:you|we|i)\ can\ skip\b | (?:i['’]?m\ |we['’]?re\ )?not\ interested\b
      | (?:please\s+)?(?:show|give|tell|list|make|create|open)\ (?:(?:me|us)\ )?no\ (?!(?:more|fewer
        |less|later|earlier)\b)\w
      | (?:(?:can|could|would|will)\ you\ )?(?:please|kindly)\ not\ \w
      | (?:i|we)\ (?:said|told\ you)\ (?:to\ )?(?:not|never|do\ not|don['’]?t)\b
      | (?:i|we)(?:['’]d|\ would)\ prefer\ (?:you\ )?not\b
      | (?:it|that)(?:['’]s|\ is)\ not\b.{1,60}\b(?:i|we)\ (?:want|need|mean|meant|asked\ for)\b
      | .{1,60}\b(?:isn['’]?t|is\ not|aren['’]?t|are\ not)
        \ (?:what\ (?:i|we)\b|important\b|relevant\b)
      | stop\ \w+ing\b | let['’]?s\ (?:hold\ off|skip|drop|forget|postpone)\b
      | (?:i|we)\ (?:won['’]?t|will\ not|wouldn['’]?t)\ be\ \w+ing\b
      | (?:i|we)['’]?d\ rather\ (?:you|we)\ (?:didn['’]?t|did\ not)\b
      | (?:nobody|no\ one)\ (?:told|asked|wants?|said)\b
      | (?:i|we)(?:\ have|['’]ve)?\ (?:agreed|decided|promised|chose)\ (?:not\ to|against)\b
      | .{1,60}\b(?:can|has\ to|will\ have\ to|should)\ wait$
      | .{1,60}\b(?:is|are)\ (?:just\ )?(?:fine|good|ok|okay|perfect)\ (?:as\ (?:it|they)\ (?:is
        |are)|like
        \ (?:that|this)|the\ way\ (?:it|they)\ (?:is|are))$
      | .{1,60}\b(?:must|should|may|shall)(?:n['’]t|\ not)\ (?:be\ )?(?:changed|touched|deleted
        |opened
        |created|renamed|edited|modified|removed)\b
      | (?:enough|done|finished)\ (?:with|of)\b | (?:spare\ me|i['’]?ll\ pass\ on)\b
      | (?:bitte\s+)?(?:nicht|kein|keine|keinen|keinem|niemals|nie)\b
      | (?:ich|wir)\ (?:will|möchte|brauche|wollen|möchten|brauchen|meine)\b.*\b
        (?:nicht|keine?[nmrs]?)\b
      | (?:bitte\s+)?\w+\ (?:(?:jetzt|bitte|mir|uns|bloß|bloss|nur|ja|erst\ mal|auf)\ ){0,3}
        (?:keine?[nmrs]?)\b
      | (?:bitte\s+)?(?:zeige?|nenne?|gib|liste|erstelle?|lege?|lösche?|öffne|ändere?|mache?)
        \ (?:(?:jetzt|bitte|mir|uns|bloß|bloss|ja)\ ){0,3}nicht\ (?:den|die|das|dem|der|mehr)\b
      | .{1,60}\bbitte\ nicht\b | (?:lass|lasst|lassen\ sie)\b.{1,50}\bweg$
      | (?:er|sie|es|ihr)\ (?:soll|sollen|sollt|darf|dürfen|dürft)\b.{0,20}
        \b(?:nicht|keine?[nmrs]?)\b
      | (?!(?:ich|wir|man|warum|wieso|weshalb)\b)
        (?!.*\b(?:geht|gehen|funktionier\w*|klappt|stimmt|stimmen|öffnet|finde|sehe|weiß|kenne)\b)
        .{3,80}\ nicht(?:\ (?:mehr|jetzt|an|ab|aus|auf))?$
      | .{1,60}\b(?:brauch\w*|will|möchte)\ (?:ich|wir)\ (?:doch\ |jetzt\ |gar\ )?(?:nicht|keine)\b
      | (?:ich|wir)\ (?:frage|suche|wollte|meinte)\b.{0,40}\bnicht\b | vergiss\b
      | (?:lass|lasst|lassen\ (?:sie|wir))\b.{1,50}\b(?:sein|bleiben|in\ ruhe|so$
        |wie\ (?:er|sie|es)\ (?:ist|sind))\b
      | .{1,60}\b(?:nicht\ (?:mehr\ )?(?:nötig|gebraucht|benötigt|gewünscht|notwendig
        |erforderlich)|hat\ sich\ erledigt|überflüssig)\b
      | (?:.{1,60}\b)?bitte\ nichts\b | nichts\ \w+en$ | .{1,60}\bin\ ruhe(?:\ lassen)?$
      | finger\ weg\b | (?:wir|ich)\ kommen?\b.{0,20}\bohne\b
      | .{1,60}\bverzichte(?:n|t)?(?:\ wir)?\b
      | .{1,60}\b(?:kann|können)\ (?:gern\ |ruhig\ )?so\ bleiben$
      | (?:ich\ habe?|wir\ haben)\ (?:es\ )?(?:mir|uns)\ anders\ überlegt\b
      | du\ (?:brauchst|musst|sollst)\b.{0,40}\b(?:nicht|keine?[nmrs]?)\b
      | (?:statt|anstatt|ohne)\b | (?:schluss|genug)\ (?:mit|von)\b | (?:ich\ )?verzichte\ auf\b
      | (?:niemand|keiner)\ (?:hat|will|braucht|wollte)\b
      | .{1,60}\b(?:kann|können|muss|müssen)\ (?:noch\ )?warten$ | .{1,60}\b(?:hat
        |haben)\ (?:\w+\ ){0,2}zeit$
      | .{1,60}\b(?:bleibt|bleiben|ist|sind|passt|passen|reicht|reichen)\ (?:gut\ |genau\ |so\ )*so$
      | (?:du\ kannst|können\ sie|kannst\ du)\b.{1,50}\b(?:sparen|weglassen|überspringen)$
      | (?:s'il\ (?:te|vous)\ pla[iî]t\s+)?ne\ \w+\ (?:pas|plus|jamais|rien)\b
      | (?:surtout\ )?n['’]\w+\ (?:pas|plus|jamais|rien|aucune?)\b
      | (?:surtout\ )?ne\ \w+\ (?:surtout\ |plus\ |pas\ )?(?:aucune?|surtout\ pas|vraiment\ pas)\b
      | (?:touche|crée|fais|ouvre|supprime|efface|change|modifie|ajoute|bouge|montre)[sz]?
        \ (?:pas|plus|rien|à\ rien)\b
      | (?:s'il\ (?:te|vous)\ pla[iî]t\s+)?ne\ (?:m['’]|me\ |nous\ |l['’]|le\ |la\ |les\ |lui\ )\w+
        \ (?:surtout\ |vraiment\ )?(?:pas|plus|jamais|rien|aucune?)\b
      | (?:merci|prière)\ de\ ne\ (?:pas|plus|jamais)\b | inutile\ d['’]\w
      | .{1,60}\bne\ (?:m['’]|me\ |nous\ )(?:intéress\w+|serv\w+)\ (?:pas|plus|à\ rien)\b
      | (?:tu|vous)\ n['’]\w+\ (?:pas|plus)\ (?:à|besoin)\b
      | il\ n['’]est\ (?:pas|plus)\ (?:nécessaire|utile|question)\b
      | ne\ \w+\ (?:surtout|plus|vraiment)\ (?:pas\ )?\w | (?:plus\ )?(?:pas\ )?besoin\ d
      | (?:on|je|nous)\ (?:n['’]|ne\ )\w+.{0,12}\b(?:pas|plus|aucune?)\b | ça\ ne\ sert\b
      | .{1,60}\b(?:n['’]est|ne\ sont)\ (?:pas|plus)\ (?:nécessaires?|utiles?|la\ peine)\b
      | (?:laisse[zr]?|abandonne[zr]?)\ (?:tomber|la|le|les|tout)\b | surtout\ pas\b
      | (?:ce\ n'est\ )?pas\ la\ peine\b | oublie[zs]?\b | inutile\ de\b
      | je\ n['’]ai\ (?:pas|plus)\ besoin\b
      | arrête[zr]?\ (?:de|d['’])\ ?\w+ | évite[zr]?\ (?:de|d['’])\ ?\w+ | pas\ intéressée?s?\b
      | personne\ ne\b | pas\ touche\b | rien\ à\ \w+r\b
      | .{1,60}\bpeu(?:t|vent)\ rester\b
      | (?:on|nous|je)\ (?:(?:se|nous|me)\ pass\w+\ d|f(?:er)?(?:a|ai|ons|ra|rai|rons)\ sans\b)
      | .{1,60}\b(?:peut|peuvent)\ attendre$ | .{1,60}\b(?:bien|parfait\w*|bon)\ comme\ (?:ça|cela)$
      | je\ ne\ (?:veux|souhaite|cherche)\b | (?:pas|plus|jamais)\ (?:de|d'|le|la|les|un|une)\b
      | (?:au\ lieu|sans)\b
      | (?:por\ favor\s+)?(?:no|nunca)\ (?:me\ )?(?:quiero|necesito|crees?|borres?|abras?|hagas?
        |muestres?|cambies?|elimines?|añadas?|busques?|envíes?)\b
      | (?:ya\ )?no\ (?:hace\ falta|es\ necesario|me\ interesan?|te\ pido|me\ hace\ falta
        |necesitamos|queremos|necesitas|tienes\ que)\b | ya\ no\b | olvida\b | nada\ de\b
      | .{1,30}\b(?:no|não|non)\ (?:quiero|deseo|necesito|quero|desejo|preciso|voglio|desidero)\b
      | (?:(?:te|le|os|les)\ (?:pido|ruego)|prefiero)\ que\ no\b
      | .{1,60}\bno\ (?:me|nos)\ (?:interesan?|importan?|sirven?|hacen?\ falta)\b
      | ning[uú]na?\b | (?:déjalo|deja|dejad|deje)\ (?:el|la|los|las|eso|como|estar|así)\b
      | (?:por\ favor\s+)?no\ (?:me\ |te\ |lo\ |la\ |los\ |las\ )?\w{2,}(?:es|as|éis|áis)\b
      | .{1,60}\bya\ no\ (?:hace|se|lo|la|es)\b
      | (?:en\ (?:lugar|vez)\ de|sin)\b | (?:deja|dejad|deje)\ de\ \w+r\b | olvídate\b
      | nadie\ (?:te|ha|quiere|pidió|dijo)\b | (?:deja|dejad|deje)\ en\ paz\b
      | (?:\w+\ )?prescindi\w*\ de\b | .{1,60}\bpueden?\ (?:quedar|seguir)\w*\ (?:así|como)\b
      | .{1,60}\bpueden?\ esperar$ | .{1,60}\bestán?\ bien\ (?:así|como\ están?)$
      | (?:por\ favor\s+)?(?:não|nunca)\ (?:mexe|mexa|toque|quero|preciso|crie|criar|apague|abra
        |faça|mostre|mude
        |remova|adicione|procure|envie|cria|apaga|abre|faz|mostra|precisa|precisamos|queremos
        |estou\ pedindo|me\ interessa|é\ preciso)\b
      | não\ (?:é|vou|vamos|tem|há|se|me|nos|te|lhe)\ \w+ | deix[ae]\ (?:o|a|os|as|como|assim|pra)\b
      | .{1,60}\bnão\ (?:é|são)\ mais\ necessári[oa]s?\b
      | (?:nada\ de|nenhuma?|esque[çc][ae]|deixa\ pra\ lá)\b | (?:em\ vez\ de|sem)\b
      | (?:para|pare|parem)\ de\ \w+r\b | chega\ de\b
      | ninguém\ (?:te|quer|pediu|disse|mandou)\b | não\ \w{2,}(?:es|as)\b
      | (?:passamos|passo|ficamos)\ bem\ sem\b | (?:dispens(?:o|amos))\b
      | .{1,60}\bpodem?\ ficar\ (?:como|assim)\b
      | .{1,60}\bpodem?\ esperar$ | .{1,60}\bestão?\ (?:bom|bem|ótim[oa]s?)\ assim$
      | non\ (?:voglio|creare|aprire|cancellare|mostrare|cambiare|cercare
        |mi\ serv(?:e|ono)|mi\ interessa(?:no)?|serve|ti\ chiedo|occorre|c'è\ bisogno)\b
      | non\ (?:ho|abbiamo|devi|dovete|vogliamo|c'è|è|me|ti|mi|lo|la|li|le)\b
      | (?:per\ favore\s+)?non\ \w{3,}(?:are|ere|ire|arl[aeio]|erl[aeio]
        |armi|arci|ermi|erci|irmi|irci)\b
      | lascia\ (?:il|la|i|le|gli|tutto|così|com)\b
      | .{1,60}\bnon\ (?:serv(?:e|ono)|è\ necessari[oa]|occorr(?:e|ono))\b
      | (?:niente|nessun[ao']?|dimentica|lascia\ (?:stare|perdere))\b
      | invece\ di\b | (?:smetti|smettila|evita|basta)\ (?:di|con)\b
      | nessuno\ (?:ti|ha|vuole)\b | alla\ fine\ non\b | lascia(?:te)?\ in\ pace\b
      | .{0,30}\bfac?c?ia(?:mo)?\ a\ meno\b
      | (?:possiamo|posso)\ fare\ a\ meno\b | .{1,60}\bpu(?:ò|oi)\ restare\ (?:così|com)
      | .{1,60}\b(?:può|possono)\ aspettare$ | .{1,60}\b(?:va|vanno)\ bene\ così$
      | (?:ik|we)\ (?:wil|willen|hoef|hoeven|heb|hebben|vraag)\ (?:\w+\ )?(?:g[eé][eé]n|niet)\b
      | .{1,60}\b(?:hoeft|hoeven|is|zijn)\ (?:\w+\ )?niet\ (?:meer\ )?(?:nodig)?\b$
      | (?:toon|geef|maak|open|laat|vertel)\ (?:(?:me|mij|ons|alsjeblieft|nu|maar)\ ){0,3}geen\b
      | laat\b.{1,60}\bniet\ zien$
      | (?:ik|we|wij)\ (?:wil|willen|hoef|hoeven)\b.{1,60}\bniet\ (?:zien|hebben|weten|horen)$
      | (?:ik|we|wij)\ (?:heb|hebben)\b.{1,60}\bniet\ (?:meer\ )?nodig$
      | je\ (?:hoeft|moet)\b.{0,40}\b(?:niet|geen)\b | (?:nee\ )?niet\ (?:doen|nodig|meer)\b
      | (?:het|er)\ is\ niet\ (?:meer\ )?nodig\b | geen\ (?:\w+\ ){1,3}graag$
      | (?:g[eé][eé]n|vergeet|laat)\ (?!(?:me|mij|eens|het\ me|zien)\b)\w
        (?=.*\b(?:zitten|maar|meer|nodig|nieuwe?|alsjeblieft)\b)
      | (?:ik\ (?:wil|wens)|\w+)\ (?:(?:nu|vooral|voorlopig|alsjeblieft|maar|toch)\ )?geen\b
        | in\ plaats\ van\b | (?:stop|hou\ op)\ met\b | (?:ik\ ben\ )?niet\ geïnteresseerd\b
      | niemand\ (?:heeft|wil|vroeg)\b | .{1,60}\bhoef(?:t|ven)?\ (?:je|u)\b.{0,12}\b(?:niet|geen)\b
      | blijf\b.{1,40}\baf$ | (?:we|ik)\ (?:kunnen|kan|doen|doe)\b.{0,12}\bzonder\b
      | .{1,60}\btoch\ niet\ nodig$ | .{1,60}\b(?:kan|kunnen|mag|mogen)\ (?:gewoon\ )?zo\ blijven$
      | .{1,60}\bmet\ rust(?:\ laten)?$ | laat\b(?!.*\bzien\b).{1,50}
        \b(?:(?:maar\ )?zitten$|zoals\ (?:het|hij|ze|die)\b)
      | .{1,60}\b(?:kan|kunnen|moet|moeten)\ (?:nog\ )?wachten$ | .{1,60}\b(?:is|zijn|blijft
        |blijven)\ (?:goed\ )?zo$
      | .{1,16}(?:以后再说|就?先?这样|先放着|下次再说|保持(?:原样|不变))[了吧]?$
      | .{1,12}(?:先别|先不)\w{0,8}$ | .{1,12}不要\w{1,8}了$
      | (?!(?:waarom|ik\ (?:vind|zie|weet|snap|begrijp|ken|kan))\b)
        (?!.*\b(?:werkt|werken|klopt|kloppen|gaat)\b).{3,80}\ niet(?:\ (?:meer|nu))?$
      | (?:请|千万|先|暂时|目前|现在|今天|你)*(?:不用|不要|别|不必|不需要|无需|甭|先别|没必要
        |别再|我不想|我不要|我不是|不想)
      | .{1,12}(?:不用|不必|不需要|无需)(?:再)?(?:建|新建|创建|做|开|打开|加|改|弄|要)了?$
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""The start of a clause that declines something."""

_WITHDRAWN: Final = late_pattern(
    r"""^(?: never\ ?mind | (?:so\ )?(?:please\ )?(?:don['’]?t|do\ not)$ | forget\ (?:it|that
      |about\ it) | (?:just\ )?(?:leave|drop)\ (?:it|that)
      | (?:i|we)\ (?:have\ |['’]ve\ )?changed\ (?:my|our)\ minds?
      | (?:ik\ heb|we\ hebben)\ (?:me|ons)\ bedacht
      | (?:not\ any\ ?more|hoeft\ niet(?:\ meer)?|laat\ maar(?:\ zitten)?|stop\ daarmee)
      | (?:lass|lasst)\ (?:es\ )?(?:gut\ sein|bleiben|lieber) | (?:egal|vergiss\ es|doch\ nicht)
      | laisse[z]?\ tomber | (?:c'est\ bon\ )?(?:j'ai|on\ a)\ changé\ d'avis | tant\ pis
      | (?:ça|cela)\ ne\ m'intéresse\ (?:plus|pas)
      | (?:déja|deja)(?:lo|la)\b | he\ cambiado\ de\ (?:idea|opinión) | olvídalo
      | deixa\ (?:pra\ lá|estar|quieto) | mudei\ de\ ideia | esque[çc][ae]
      | lascia\ (?:stare|perdere) | ho\ cambiato\ idea
      | 算了 | 我改主意了 | 不用了
    )(?![\w])""",
    re.VERBOSE | re.IGNORECASE,
)
"""The start of a clause that withdraws what comes before it."""

_WORDING: Final = late_pattern(
    r"""\b(?: how\ (?:do|does|would|should|can|could)\ (?:i|you|one|we|it)\ (?:\w+\ )?
        (?:spell|pronounce|phrase|word|translate|say|(?:write|put)\ ["'“‘«„])
      | how\ (?:is|are)\b.{1,60}\b(?:spelled|spelt|pronounced|written|translated)\b
      | how\ to\ (?:spell|pronounce|phrase|word|translate)\b
      | (?:title|headline|slogan|caption|heading|joke|pun|riddle)s?\ (?:for|on|about)\b
      | (?:titel|überschrift|slogan|witz)\ (?:für|zu|über)\b | (?:titre|slogan|blague)\ (?:pour
        |sur)\b
      | (?:t[íi]tulo|eslogan|slogan|chiste|piada)\ (?:para|sobre)\b
      | (?:titolo|slogan|barzelletta)\ (?:per|su)\b | (?:titel|kop|grap)\ (?:voor|over)\b
      | what\ does\b.{1,60}\bmean\b
      | (?:another|other|nicer|better|different|shorter)\ (?:words?|terms?|expressions?|synonyms?)
        \ for\b | synonyms?\ (?:for|of)\b | wie\ nennt\ man\b | comment\ appelle-t-on\b
      | cómo\ se\ llama\ en\b | como\ se\ chama\ em\b
      | wie\ (?:schreibt|buchstabiert|spricht|übersetzt|sagt|formuliert)\ man\b
      | was\ (?:bedeutet|heißt)\b
      | comment\ (?:écrit|prononce|traduit|dit|épelle)-on\b | que\ (?:veut\ dire|signifie)\b
      | cómo\ se\ (?:escribe|dice|pronuncia|traduce)\b | qué\ significa\b
      | como\ se\ (?:escreve|diz|pronuncia|traduz)\b | o\ que\ significa\b
      | come\ si\ (?:scrive|dice|pronuncia|traduce)\b | cosa\ significa\b
      | hoe\ (?:schrijf|spel|vertaal|zeg)\ je\b | wat\ betekent\b
      | (?:plural|opposite|spelling|translation|pronunciation|meaning)\ of\b
      | (?:mehrzahl|plural|gegenteil|übersetzung|aussprache)\ von\b
      | (?:pluriel|contraire|traduction)\ de\b | (?:plural|traducción|tradução|plurale)\ d[ei]\b
      | (?:in\ (?:good|proper|correct)\ english|auf\ (?:englisch|französisch|spanisch)
        |en\ (?:anglais|inglés|inglês|allemand)|in\ (?:inglese|het\ engels|goed\ nederlands))\b
      | ^on\ dit\b | ^heißt\ es\b | ^se\ dice\b | ^si\ dice\b | ^is\ het\ een\b.*\bof\b
      | ^(?:\w+\ ){0,3}(?:translate|übersetze?|traduis|traduce|traduz|traduci|vertaal|翻译)\b
      | ^(?:\w+\ ){0,3}proofread\b | ^(?:\w+\ ){0,3}(?:correct|korrigiere?|corrige|correggi
        |verbeter)\b
        .{0,20}\b(?:sentence|text|spelling|satz|phrase|frase|zin)\b
      | ^(?:\w+\ ){0,3}(?:write|draft|compose|schreibe?|verfasse?|rédige|écris|escribe|redacta
        |escreve|escreva|redige|scrivi|schrijf|stuur|写)\b.{0,25}\b(?:e-?mail|mail|message|poem
        |letter
        |story|song|speech|tweet|post|joke|greeting|invitation|gedicht|brief|nachricht|rede|witz
        |geschichte|lettre|poème|discours|mensagem|carta|correo|mensaje|poema|discurso|convite
        |lettera|messaggio|poesia|augurio|biglietto|invito|uitnodiging|kaartje|bericht|verhaal
        |toespraak)\b
      )|(?:怎么说|怎么写|怎么念|怎么读|是什么意思)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Questions about words."""

_WORDS_FOLLOW: Final = late_pattern(
    r"\b(?:spell|pronounce|phrase|word|say|proofread|translate|schreibt|sagt|übersetze?|korrigiere?"
    r"|écrit|dit|traduis|corrige|escribe|dice|traduce|escreve|diz|traduz|scrive|traduci|correggi"
    r"|schrijf|zeg|vertaal)\b(?:\ \w+)?\ (?:it|this|that|das|es|dies|ça|cela|eso|esto|isso"
    r"|isto|questo|het|dit|dat)$",
    re.IGNORECASE,
)
"""A question about words that come after it: "how do you spell it, value list or valuelist?"."""

_RELATIVE: Final = late_pattern(
    r"^(?:who|which|that|der|die|das|den|dem|weil|dass|qui|que|quien|porque|che|die|dat|omdat)\b",
    re.IGNORECASE,
)
"""The start of a clause that belongs to the one before it."""

_REFERS: Final = late_pattern(
    r"""\b(?: (?:existing|old|current|other)\ ones? | ones?\ (?:that|which|we|i|you)\b
      | die\ (?:vorhandenen?|bestehenden?|alten?|anderen?|aktuellen?)(?!\ \w)
      | (?:celles?|ceux|celui)\ (?:qui|que|d)\b | l[ae]s?\ existant(?:e|s|es)?(?!\ \w)
      | l[ao]s?\ (?:existentes?|actual(?:es)?)(?!\ \w)
      | l[ao]s?\ que\ (?:ya\ )?(?:hay|existen?|tenemos)\b
      | [ao]s?\ (?:existentes?|atua(?:l|is))(?!\ \w)
      | [ao]s?\ que\ (?:já\ )?(?:há|existem?|temos)\b
      | quell[aeio]\ (?:esistent[ei]|che|attual[ei])\b
      | de\ (?:bestaande|huidige|oude|andere)(?!\ \w)
    )|(?:现有|已有|原来)的""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words for more of what was just declined: "no new relation, just show me the existing ones"."""

_LONGEST: Final = 4_000
"""Messages with more characters are not examined (chosen)."""


def refers_back(text: str) -> bool:
    """Whether what is left of a message is about the thing that its declined part names."""
    return _REFERS.search(text) is not None


def without_declined(text: str) -> str:
    """Replace what is declined, quoted, only told, or a question of wording with as many blanks."""
    if len(text) > _LONGEST:
        return text
    text = without_quotations(text)
    tells = not asks_for_something(text)
    # "I packed it myself, and the back was torn" is a report that asks for help.
    remarks = tells and not reports_problem(text)
    pieces: list[str] = []
    at, is_blanked, asks_about_next = 0, False, False
    for separator in [*_CLAUSE.finditer(text), None]:
        end = separator.start() if separator is not None else len(text)
        clause = text[at:end]
        stripped = clause.strip()
        is_question = text[end : end + 1] == "?"
        declines = _DECLINED.match(stripped) is not None and not _REQUESTED.search(stripped)
        if _WITHDRAWN.match(stripped):
            pieces = [" " * len(piece) for piece in pieces]
            declines = True
        is_blanked = (
            (declines and not is_question)
            or _WORDING.search(stripped) is not None
            or (tells and is_mention(stripped))
            or (remarks and is_remark(stripped))
            or (is_blanked and _RELATIVE.match(stripped) is not None and text[at - 2] == ",")
            or asks_about_next
        )
        asks_about_next = is_blanked and _WORDS_FOLLOW.search(stripped) is not None
        if is_blanked:
            clause = " " * len(clause)
        pieces.append(clause)
        if separator is not None:
            pieces.append(separator[0])
            at = separator.end()
    return "".join(pieces)
