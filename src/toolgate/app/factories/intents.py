"""Builds what tells the intents of messages and finds the rules for them."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from toolgate.app.factories.search import SearchFactory
from toolgate.intents import DetectionLog, Recognizer
from toolgate.intents.rules import Rulebook, WorkspaceVariables
from toolgate.intents.service import IntentService
from toolgate.settings import CurrentSettings, home_dir, learned_dir
from toolgate.store import Store

__all__ = ["IntentParts", "open_intents", "working_folder"]


@dataclass(frozen=True, kw_only=True)
class IntentParts:
    """What tells the intents of messages and finds the rules for them."""

    recognizer: Recognizer
    """Tells the intents."""

    rulebook: Rulebook
    """The rules of the packs."""

    log: DetectionLog
    """Records what was detected."""

    service: IntentService
    """Puts the three together."""


def open_intents(
    stack: AsyncExitStack, settings: CurrentSettings, store: Store, search_factory: SearchFactory
) -> IntentParts:
    """What tells intents, without any pack yet; closing the stack closes it."""
    recognizer = Recognizer(embedder=search_factory.embedder_if_usable(), cache=learned_dir())
    stack.push_async_callback(recognizer.aclose)
    detections = DetectionLog(
        store.detections,
        enabled=lambda: settings().audit.detections,
        keep_messages=lambda: settings().audit.keep_queries,
    )
    stack.push_async_callback(detections.aclose)
    rulebook = Rulebook(
        common=WorkspaceVariables(
            working_folder(), home=home_dir(), connections=lambda: settings().connections
        )
    )
    service = IntentService(
        recognizer=recognizer,
        rulebook=rulebook,
        settings=lambda: settings().rules,
        notes=detections,
    )
    return IntentParts(recognizer=recognizer, rulebook=rulebook, log=detections, service=service)


def working_folder() -> Path:
    """The folder in which the command runs; the root of the file system if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")
