"""The instructions that tell models to call `processPrompt` first."""

from typing import Final

CALL_FIRST: Final = (
    "Call processPrompt first for every request of the user, with the user's exact message. It "
    "answers with the rules and tools for that kind of work: follow them. If it answers "
    "PASS_THROUGH, go on as usual. When the user changes the topic, call it again."
)
"""One paragraph, for the gateway's `instructions`."""

INSTRUCTIONS: Final = """\
# Working with Toolgate

Toolgate is an MCP server that knows how work is done here: it tells what a message is about, and
gives the rules and tools for it.

1. **Call `processPrompt` first, for every request of the user**, with the user's exact message as
   `prompt`. Do not shorten or translate it, and do not answer before.
2. If the answer is `PASS_THROUGH`, no rules belong to the request: go on as usual.
3. Otherwise follow the rules in the answer. They name the tools and say when to ask the user.
4. Call `processPrompt` again whenever the user changes the topic. Rules that an answer names as no
   longer valid do not count any more.
5. For a step in between, ask `getKnowledge` with a few short actions, such as
   `["create a relation"]`.
6. If a call is answered with rules instead of a result, follow those.
"""
"""A file for clients that read one, written by `toolgate init --rules`."""
