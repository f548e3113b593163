"""Evaluates answers: retrieval, correctness, and support by documents."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from time import perf_counter
from typing import Any

from toolgate.chat import ChatService, TurnRequest
from toolgate.documents import RetrieveRequest, citation, quoted_texts
from toolgate.errors import ModelError, ToolgateError
from toolgate.evaluation.question_sets import AnswerQuestion, ask_model
from toolgate.gateway.gateway import Gateway
from toolgate.models.llm import Message
from toolgate.types import Caller, Json, json_array, json_object

DEPTH = 10
"""Passages searched for the one with the answer (chosen)."""

_VERDICT_TOKENS = 16
"""Token limit of a verdict of one word (chosen)."""

_CORRECTNESS: Mapping[str, float] = {"wrong": 0.0, "partly": 0.5, "correct": 1.0}
_FAITHFULNESS: Mapping[str, float] = {"unsupported": 0.0, "partly": 0.5, "supported": 1.0}
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, kw_only=True)
class TurnVariant:
    """Settings to evaluate."""

    name: str
    """Their name in results."""

    choices: Json = field(default_factory=dict[str, Any])
    """Fields of `toolgate.chat.Choices` that differ from the settings."""


@dataclass(frozen=True, kw_only=True)
class JudgedAnswer:
    """The result of a question."""

    id: str
    """Its id in the set."""

    question: str
    """The question."""

    expected: str
    """The correct answer."""

    answer: str
    """The model's answer; empty if it failed."""

    sources: tuple[str, ...]
    """The passages that the model received, in the form of citations."""

    rank: int | None
    """Rank of the first passage with the answer, from 1; 0: not among the first ten; None: the
    source of the answer is unknown."""

    correctness: float | None
    """1: correct, 0.5: partly correct, 0: wrong; None: not judged."""

    faithfulness: float | None
    """1: fully supported by documents, 0.5: partly, 0: not at all; None: not judged, or there
    were no documents."""

    tokens: int
    """Tokens of all requests of the turn."""

    cost: float
    """Cost, in the currency of the configured prices."""

    seconds: float
    """Duration of the turn."""

    error: str = ""
    """Why there is no answer or verdict."""


@dataclass(frozen=True, kw_only=True)
class AnswerRun:
    """The results of all questions with a variant."""

    variant: TurnVariant
    """The settings."""

    answers: tuple[JudgedAnswer, ...]
    """In the order of the questions."""

    def shares(self) -> dict[str, float]:
        """Metrics by name, in [0, 1]; unknown ones are left out."""
        ranks = [answer.rank for answer in self.answers if answer.rank is not None]
        metrics: dict[str, Sequence[float]] = {
            "correct": _known(answer.correctness for answer in self.answers),
            "faithful": _known(answer.faithfulness for answer in self.answers),
            "hit@1": [float(rank == 1) for rank in ranks],
            "hit@5": [float(0 < rank <= 5) for rank in ranks],
            "MRR": [1 / rank if rank else 0.0 for rank in ranks],
            "answered": [float(bool(answer.answer)) for answer in self.answers],
        }
        return {name: round(fmean(values), 4) for name, values in metrics.items() if values}

    def means(self) -> dict[str, float]:
        """Mean tokens, cost and seconds per answer."""
        return {
            "tokens": round(fmean(answer.tokens for answer in self.answers), 1),
            "cost": round(fmean(answer.cost for answer in self.answers), 8),
            "seconds": round(fmean(answer.seconds for answer in self.answers), 3),
        }


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


async def measure_variant(
    gateway: Gateway,
    chat: ChatService,
    caller: Caller,
    questions: Sequence[AnswerQuestion],
    variant: TurnVariant,
    *,
    judge: str,
) -> AnswerRun:
    """Ask all questions, each in a new conversation, and judge the answers.

    Args:
        gateway: Provides the documents.
        chat: Provides the models.
        caller: The caller.
        questions: The questions.
        variant: Settings of the turns.
        judge: Name of the model that judges.

    Raises:
        ArgumentError: A setting does not exist or has an invalid value.
        UnknownModelError: The model does not exist.
    """
    judged = _judged(gateway, chat, caller, questions, variant, judge)
    return AnswerRun(variant=variant, answers=tuple([answer async for answer in judged]))


async def _judged(
    gateway: Gateway,
    chat: ChatService,
    caller: Caller,
    questions: Sequence[AnswerQuestion],
    variant: TurnVariant,
    judge: str,
) -> AsyncGenerator[JudgedAnswer]:
    for question in questions:
        rank = await _rank(gateway, caller, question, variant) if question.has_source else None
        began, text, error = perf_counter(), "", ""
        metadata: Json = {}
        tokens = 0
        request = TurnRequest(
            caller=caller,
            messages=(Message(role="user", content=question.question),),
            choices=dict(variant.choices),
        )
        run = chat.start(request)
        assert run.task is not None  # a run that has just begun
        try:
            outcome = await run.task
        except ToolgateError as failure:
            error = str(failure).partition("\n")[0]
        else:
            text, metadata, tokens = outcome.text, outcome.metadata, outcome.usage.total_tokens
        seconds = perf_counter() - began
        passages = [json_object(row) for row in json_array(metadata.get("sources"))]
        verdicts: list[float | None] = [None, None]
        for at, verdict_on in enumerate((_correctness, _faithfulness) if text else ()):
            try:
                verdicts[at] = await verdict_on(
                    gateway, chat, caller, question, text, passages, judge
                )
            except ModelError as failure:
                error = f"not judged: {str(failure).partition(chr(10))[0]}"
        yield JudgedAnswer(
            id=question.id,
            question=question.question,
            expected=question.answer,
            answer=text,
            sources=tuple(
                citation(str(row["document"]), str(row["heading"]), row["page"]) for row in passages
            ),
            rank=rank,
            correctness=verdicts[0],
            faithfulness=verdicts[1],
            tokens=tokens,
            cost=float(metadata.get("cost") or 0.0),
            seconds=round(seconds, 3),
            error=error,
        )


async def _rank(
    gateway: Gateway, caller: Caller, question: AnswerQuestion, variant: TurnVariant
) -> int:
    """Rank of the first passage with the answer; 0: not among the first ten."""
    retrieval = await gateway.documents.retrieve(
        caller,
        RetrieveRequest(
            question=question.question,
            collections=(question.collection,) if question.collection else (),
            top_k=DEPTH,
            search_type=variant.choices.get("search_type"),
            rephrase=False,
            grade=False,
        ),
    )
    ranks = (
        rank
        for rank, passage in enumerate(retrieval.documents, 1)
        if question.is_in(passage.source, passage.text)
    )
    return next(ranks, 0)


async def _correctness(
    gateway: Gateway,
    chat: ChatService,
    caller: Caller,
    question: AnswerQuestion,
    answer: str,
    passages: Sequence[Json],
    judge: str,
) -> float | None:
    """How far an answer says what is expected; None: nothing is."""
    del passages
    if not question.answer:
        return None
    values = {"question": question.question, "expected": question.answer, "answer": answer}
    prompt = await gateway.prompts.render(caller.project_id, "eval-correctness", values)
    reply = await ask_model(chat, judge, prompt, max_tokens=_VERDICT_TOKENS)
    return _verdict(reply, _CORRECTNESS)


async def _faithfulness(
    gateway: Gateway,
    chat: ChatService,
    caller: Caller,
    question: AnswerQuestion,
    answer: str,
    passages: Sequence[Json],
    judge: str,
) -> float | None:
    """How far passages support an answer; None: the model was given none."""
    del question
    texts = await _texts(gateway, caller, passages)
    if not texts:
        return None
    values = {"documents": quoted_texts(texts), "answer": answer}
    prompt = await gateway.prompts.render(caller.project_id, "eval-faithfulness", values)
    reply = await ask_model(chat, judge, prompt, max_tokens=_VERDICT_TOKENS)
    return _verdict(reply, _FAITHFULNESS)


async def _texts(gateway: Gateway, caller: Caller, passages: Sequence[Json]) -> list[str]:
    """The texts of the passages that the model received, in their order."""
    texts: dict[int, str] = {}
    for collection in dict.fromkeys(str(row["collection"]) for row in passages):
        numbers = [int(row["passage_id"]) for row in passages if row["collection"] == collection]
        texts |= await gateway.documents.passage_texts(caller, collection, numbers)
    return [texts[number] for row in passages if (number := int(row["passage_id"])) in texts]


def _verdict(reply: str, values: Mapping[str, float]) -> float:
    """The first verdict in a response.

    Raises:
        ModelError: There is none.
    """
    for word in _WORD.findall(reply.lower()):
        if word in values:
            return values[word]
    raise ModelError(f"The judge said {reply[:60]!r} instead of {', '.join(values)}.")
