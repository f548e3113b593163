"""Intent detection: what a message asks for, and the arguments in it.

Modules that need numpy are imported on first use; keywords and dates do not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from toolgate.intents.arguments.reader import ArgumentReader
from toolgate.intents.arguments.schemas import specs_of_schema
from toolgate.intents.base import (
    NONE,
    Argument,
    ArgumentKind,
    ArgumentSpec,
    Detection,
    DetectionLimits,
    DetectRequest,
    Intent,
    IntentCandidate,
    IntentSet,
    Keywords,
    MessageSpan,
    Stage,
    StageChoice,
    StageRequest,
    SubjectGuard,
)
from toolgate.intents.dates.parser import DateMatch, find_dates
from toolgate.intents.detection.cascade import Cascade, combine_stages
from toolgate.intents.detection.courtesy import without_courtesies
from toolgate.intents.detection.intent_files import (
    IntentFiles,
    builtin_pack_folder,
    load_intent,
    load_intents,
    read_intents,
    with_list_entries,
)
from toolgate.intents.detection.keyword import KeywordStage
from toolgate.intents.detection.keyword_detector import (
    IntentDetector,
    detect,
    supported_intents,
    tool_for,
)
from toolgate.intents.detection.negation import without_declined

if TYPE_CHECKING:
    from toolgate.intents.detection.detection_log import (
        DetectionLog,
        DetectionSource,
        detection_row,
    )
    from toolgate.intents.detection.trained_detector import Recognizer
    from toolgate.intents.semantic.model import Prediction, PromptNeighbours, SemanticModel
    from toolgate.intents.semantic.pack_stages import PackStages
    from toolgate.intents.semantic.stage import Explanation, SemanticStage

__all__ = [
    "NONE",
    "Argument",
    "ArgumentKind",
    "ArgumentReader",
    "ArgumentSpec",
    "Cascade",
    "DateMatch",
    "DetectRequest",
    "Detection",
    "DetectionLimits",
    "DetectionLog",
    "DetectionSource",
    "Explanation",
    "Intent",
    "IntentCandidate",
    "IntentDetector",
    "IntentFiles",
    "IntentSet",
    "KeywordStage",
    "Keywords",
    "MessageSpan",
    "PackStages",
    "Prediction",
    "PromptNeighbours",
    "Recognizer",
    "SemanticModel",
    "SemanticStage",
    "Stage",
    "StageChoice",
    "StageRequest",
    "SubjectGuard",
    "builtin_pack_folder",
    "combine_stages",
    "detect",
    "detection_row",
    "find_dates",
    "load_intent",
    "load_intents",
    "read_intents",
    "specs_of_schema",
    "supported_intents",
    "tool_for",
    "with_list_entries",
    "without_courtesies",
    "without_declined",
]

_LAZY = {
    "DetectionLog": "detection.detection_log",
    "DetectionSource": "detection.detection_log",
    "detection_row": "detection.detection_log",
    "Explanation": "semantic.stage",
    "PackStages": "semantic.pack_stages",
    "Prediction": "semantic.model",
    "PromptNeighbours": "semantic.model",
    "Recognizer": "detection.trained_detector",
    "SemanticModel": "semantic.model",
    "SemanticStage": "semantic.stage",
}
"""Names that need numpy, with their modules, which are imported on first use."""


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
