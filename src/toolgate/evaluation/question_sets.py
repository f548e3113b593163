"""Questions with expected answers: read, written, and generated from a collection."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from toolgate.base import json_text
from toolgate.chat import ChatService
from toolgate.errors import ArgumentError, ModelError, SettingError
from toolgate.gateway.gateway import Gateway
from toolgate.models.llm import ChatRequest, Message
from toolgate.types import Caller, Json, json_object

_ANSWER_TOKENS = 400
"""Token limit of a generated question with answer and quote (chosen)."""

_FEWEST_CHARS = 120
"""Length from which a passage is used (chosen: shorter ones rarely answer a question)."""

_TRIES_EACH = 2
"""Passages read per question at most (chosen: some yield no question)."""

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class AnswerQuestion:
    """A question, with its expected answer if known."""

    id: str
    """Its id in the set."""

    question: str
    """The question of a user."""

    answer: str = ""
    """A correct answer; empty: correctness is not judged."""

    collection: str = ""
    """The collection with the answer; empty if unknown."""

    document: str = ""
    """The document with the answer, or the end of its path; empty if unknown."""

    quote: str = ""
    """A verbatim quote of the passage with the answer; empty: any passage of the document
    counts."""

    @property
    def has_source(self) -> bool:
        """Whether the source of the answer is known."""
        return bool(self.document or self.quote)

    def is_in(self, source: str, text: str) -> bool:
        """Whether a passage contains the answer, by its source and text."""
        if self.document and not source.endswith(self.document):
            return False
        return normalized(self.quote) in normalized(text)


def normalized(text: str) -> str:
    """Letters and digits only, so that line breaks, hyphens and markup do not matter."""
    return "".join(char for char in text.casefold() if char.isalnum())


def read_questions(path: Path) -> list[AnswerQuestion]:
    """Read questions from a file, one JSON object per line.

    Raises:
        SettingError: The file cannot be read, or a line has no question.
    """
    hint = 'Each line is an object with "question", and "answer", "document", "quote" if known.'
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingError(f"{path} cannot be read: {reason}.", hint=hint) from error
    questions: list[AnswerQuestion] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json_object(json_text.loads(line))
        except ValueError as error:
            raise SettingError(f"{path}, line {number}, is not JSON.", hint=hint) from error
        fields = {
            name: row.get(name, "")
            for name in ("question", "answer", "collection", "document", "quote")
        }
        if not all(isinstance(value, str) for value in fields.values()) or not fields["question"]:
            raise SettingError(f"{path}, line {number}, has no question.", hint=hint)
        questions.append(AnswerQuestion(id=str(row.get("id") or f"q{number}"), **fields))
    if not questions:
        raise SettingError(f"{path} has no questions.", hint=hint)
    return questions


def write_questions(path: Path, questions: Sequence[AnswerQuestion]) -> None:
    """Write questions in the format of `read_questions`.

    Raises:
        ArgumentError: The file cannot be written.
    """
    text = b"".join(json_text.dumps(asdict(question)) + b"\n" for question in questions)
    try:
        path.write_bytes(text)
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be written: {error.strerror}.", hint="Choose a file in another folder."
        ) from error


async def generate_questions(
    gateway: Gateway,
    chat: ChatService,
    caller: Caller,
    collection: str,
    *,
    count: int,
    model: str,
) -> list[AnswerQuestion]:
    """Have a model write questions on passages spread over a collection, the same ones each time.

    Args:
        gateway: Provides the collection.
        chat: Provides the model.
        caller: Caller with access to the collection.
        collection: Its name or alias.
        count: Number of questions; fewer if the collection is small or the model finds none.
        model: Name of the model that writes them.

    Raises:
        ArgumentError: The collection does not exist, or none of its passages answers a question.
        ModelError: The model cannot be used.
    """
    passages = [
        (source, passage)
        for source, passage in await gateway.documents.passages(caller, collection)
        if len(passage.text) >= _FEWEST_CHARS
    ]
    read = min(len(passages), count * _TRIES_EACH)
    # First passages at equal distances, then those between them.
    order = [at * len(passages) // read for at in (*range(0, read, 2), *range(1, read, 2))]
    questions: list[AnswerQuestion] = []
    for at in order:
        if len(questions) == count:
            break
        source, passage = passages[at]
        prompt = await gateway.prompts.render(
            caller.project_id, "eval-question", {"passage": passage.text, "source": source}
        )
        row = _object(await ask_model(chat, model, prompt, max_tokens=_ANSWER_TOKENS))
        question, answer = str(row.get("question") or ""), str(row.get("answer") or "")
        if not question.strip() or not answer.strip():
            continue
        quote = str(row.get("quote") or "")
        if not quote or normalized(quote) not in normalized(passage.text):
            quote = max(re.split(r"(?<=[.!?])\s+|\n", passage.text), key=len)
        questions.append(
            AnswerQuestion(
                id=f"{collection}-{len(questions) + 1}",
                question=" ".join(question.split()),
                answer=answer.strip(),
                collection=collection,
                document=source,
                quote=quote.strip(),
            )
        )
    if not questions:
        raise ArgumentError(
            f"No question could be generated from the collection {collection!r}.",
            hint="It needs passages of some length, and a model that answers with JSON.",
        )
    return questions


async def ask_model(chat: ChatService, model: str, prompt: str, *, max_tokens: int) -> str:
    """The model's response to a prompt, at temperature 0.

    Raises:
        ModelError: The response is empty.
    """
    request = ChatRequest(
        messages=(Message(role="user", content=prompt),),
        parameters={"temperature": 0, "max_tokens": max_tokens},
        purpose="evaluate",
    )
    text = (await chat.models.complete(model, request)).message.text.strip()
    if not text:
        raise ModelError(f"The model {model!r} returned an empty answer.")
    return text


def _object(text: str) -> Json:
    """The JSON object in a text; empty if there is none."""
    match = _OBJECT.search(text)
    try:
        return json_object(json_text.loads(match[0])) if match else {}
    except ValueError:
        return {}
