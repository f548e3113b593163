"""`toolgate pack new`: writes a working pack, with comments on what to fill in."""

import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final

from toolgate.errors import ArgumentError, PackError

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def new_pack(name: str, folder: Path, *, intent: str = "") -> tuple[Path, ...]:
    """Write the files of a new pack. Returns their paths.

    Args:
        name: Name of the pack: lower-case letters, digits, `-` and `_`.
        folder: Where to create the pack's folder.
        intent: Its first intent; by default named like the pack.

    Raises:
        ArgumentError: A name is invalid.
        PackError: Something with this name already exists, or it cannot be written.
    """
    subject = _checked(intent or name, "intent")
    home = folder / _checked(name, "pack")
    values = {
        "pack": name,
        "intent": subject,
        "upper": subject.upper(),
        "subject": " ".join(re.split(r"[_-]+", subject)),
        "function": re.sub(r"\W", "_", subject),
    }
    try:
        home.mkdir(parents=True)
    except FileExistsError:
        raise PackError(
            f"{home} already exists.",
            hint="Choose another name, or remove the folder first.",
        ) from None
    except OSError as error:
        raise _unwritable(home, error) from error
    return tuple(_written(home / path, text, values) for path, text in _files(subject).items())


def _files(subject: str) -> Mapping[str, str]:
    return {
        "pack.toml": _PACK,
        f"intents/{subject}.txt": _PROMPTS,
        f"intents/{subject}.toml": _INTENT,
        f"rules/{subject}.md": _RULES,
        f"tools/{subject}.py": _TOOLS,
        "unsupported.txt": _UNSUPPORTED,
    }


def _written(path: Path, text: str, values: Mapping[str, str]) -> Path:
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(Template(text).substitute(values), encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: OSError) -> PackError:
    return PackError(
        f"{path} cannot be written: {error.strerror or error}.",
        hint="Choose a writable folder.",
    )


def _checked(name: str, kind: str) -> str:
    if not _NAME.fullmatch(name) or name == "none":
        raise ArgumentError(
            f"{name!r} is not a name for {'an' if kind[0] in 'aeiou' else 'a'} {kind}.",
            allowed="Allowed: lower-case letters, digits, - and _, a letter first, at most 32.",
            hint="Choose another name, such as refunds.",
        )
    return name


_PACK: Final = """\
# A pack teaches Toolgate a domain. What each key means: docs/pack-files.md.
name = "$pack"
version = "0.1.0"
description = "What people ask about $subject, and how it is done."

# What is said to a person whose message has nothing to do with this pack.
out_of_context = "I help with $subject only. For anything else, please ask somewhere else."

# The share of good messages that may be turned away: more catches more of the bad ones.
# false_alarms = 0.05
# Or the confidence that an answer needs, whatever that costs.
# threshold = 0.6

# Words that rules may use as {{NAME}}, beside those that are always there: PROJECT_NAME,
# ACTIVE_SOLUTION, DATABASE_SERVERS, AVAILABLE_DATASOURCES, USER_NAME, RECENT_FILES, TOOLS, and
# OUT_OF_CONTEXT, which is the sentence above.
[variables]
# COMPANY = "Example Ltd"

# Lists that keywords and arguments may refer to as {name}.
[lists]
# shops = ["Berlin", "Lyon"]
"""

_PROMPTS: Final = """\
# What people write when they want something about $subject: one message per line.
# A blank line or a line that begins with # says nothing. In another language: $intent.de.txt.
#
# Five messages are a start; aim for 100 to 200, as different from each other as people are:
#   formal      I would like to request ...
#   casual      can u do the thing with ...
#   technical   run $function for id 4711
#   business    the customer wants ...
#   misspelt    with the typing errors that people make
#   ambiguous   messages that could mean something else too
# and some for each tool: make, show, change, remove.
"""

_INTENT: Final = """\
# How $upper is told by words, and what does it. Every part may be left out.

# The tool that is suggested, and all that belong to this intent.
tool = "show_$function"
tools = ["show_$function"]

# Words that decide without any example. docs/intents.md has the rules.
# [keywords.en]
# exact = ["$subject"]                    # any of these alone
# partial = ["open", "show"]              # any of these with a word of context beside it
# context = ["$subject"]

# Arguments that are read from a message; without this part, those that the tool's schema has.
# [[arguments]]
# name = "since"
# kind = "date"
"""

_RULES: Final = """\
=== $upper OPERATIONS ===

**Goal**: Help the person with $subject, with the tools below and nothing else.

**Current project**: {{PROJECT_NAME}}

---

## AVAILABLE TOOLS

{{TOOLS}}

---

## TOOL 1: show_$function

**Purpose**: TODO say what it gives.

**Required parameters**:
- none

**Optional parameters**:
- limit (integer): How many at most; 10 when the person says nothing.

**When to use**:
- The person wants to see what there is.

**Example**: "show me the last 5" -> show_$function(limit=5)

---

## DECISION TREE

1. Is the message about $subject? If not: see OUT-OF-CONTEXT MESSAGES.
2. Which tool does what the person wants? If none does, say so; do not take one that is near.
3. Is every required parameter known? If not, ask for what is missing, all of it at once.
4. Would the call remove or change something? Then say what will happen, and wait for a yes.
5. Call the tool, and tell in one sentence what came of it.

---

## DISAMBIGUATION

- TODO name what is easily confused here, and how to tell which one is meant.
- When it cannot be told, ask. Never guess a name.

---

## EXAMPLES

### Example 1: to see what there is

- The person: "show me the last 5"
- Thinking: they want to see, not to change; the number is the limit.
- Call: show_$function(limit=5)
- Answer: the list, in one sentence for each.

---

## IMPORTANT RULES

1. Use only the tools above.
2. Take names exactly as the person wrote them.
3. Never make up a value for a required parameter.
4. When a tool fails, give its reason in plain words, and what can be done.

---

## ⚠️ OUT-OF-CONTEXT MESSAGES

### ✅ CASE 1: another topic of this pack, or of another one

Do not answer from these rules: call `processPrompt` again, with the person's message to the letter.
What is above is then no longer valid.

### ❌ CASE 2: nothing to do with any of it

Call no tool. Answer with exactly this: {{OUT_OF_CONTEXT}}

---

## FINAL NOTES

- TODO add what else has to be known, or remove this line.
- Answer in the language of the person.
"""

_TOOLS: Final = '''\
"""Tools of the pack $pack. Every function marked with `@tool` is one.

What it takes and gives is told by its signature, and what it does by its first sentence.
"""

from toolgate import tool


@tool
def show_$function(limit: int = 10) -> list[str]:
    """Show what there is about $subject.

    Args:
        limit: How many at most.
    """
    found = ["a first example", "a second example"]  # TODO get the real ones
    return found[:limit]
'''

_UNSUPPORTED: Final = """\
# Messages that sound like this pack but ask for something it cannot do, one per line.
# They are turned away, and so is what is like them.
"""
