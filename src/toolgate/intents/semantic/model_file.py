"""Write a fitted classifier to a file, and read it."""

import io
import json
import zipfile
from collections.abc import Sequence

import numpy as np

from toolgate.intents.semantic.model import SemanticModel, TrainingSet
from toolgate.intents.semantic.ngrams import COLUMNS, NgramVectorizer, fit_vectorizer
from toolgate.intents.semantic.softmax import LinearModel

# Incremented when the parts of the file or the fit change; models of other versions are refitted.
_FORMAT = "8"


def write_model(model: SemanticModel) -> bytes:
    """Return the content of a model file."""
    training_set = model.training_set
    header = {
        "intents": training_set.intents,
        "texts": training_set.texts,
        "owners": training_set.owners,
        "share": model.share,
        "inside_curve": model.inside_curve,
        "which_curve": model.which_curve,
        "doubt": model.doubt,
    }
    file = io.BytesIO()
    # Most buckets are zero, so only the others are stored.
    buckets = np.flatnonzero(model.grams.rarity)
    np.savez(
        file,
        about=np.frombuffer(json.dumps({_FORMAT: header}).encode(), np.uint8),
        known=buckets.astype(np.uint32),
        rarity=model.grams.rarity[buckets],
        weights=model.linear.weights,
        constants=model.linear.constants,
        known_rows=model.rows,
        steps=model.steps,
        lengths=model.lengths,
        rivals=model.rivals,
        rival_steps=model.rival_steps,
        held_confidences=model.held_confidences,
        held_owners=model.held_owners,
    )
    return file.getvalue()


def read_model(data: bytes) -> SemanticModel:
    """Read the content of a model file.

    Raises:
        ValueError: The content is not a model, is damaged, or has another version.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as parts:
            header = json.loads(parts["about"].tobytes())[_FORMAT]
            rarity = np.zeros(fit_vectorizer(()).rarity.shape, np.float16)
            rarity[parts["known"]] = parts["rarity"]
            return SemanticModel(
                training_set=TrainingSet(
                    intents=tuple(header["intents"]),
                    texts=tuple(header["texts"]),
                    owners=tuple(header["owners"]),
                ),
                grams=NgramVectorizer(rarity=rarity),
                share=float(header["share"]),
                linear=LinearModel(weights=parts["weights"], constants=parts["constants"]),
                dim=parts["known_rows"].shape[1] - COLUMNS,
                rows=parts["known_rows"],
                steps=parts["steps"],
                lengths=parts["lengths"],
                rivals=parts["rivals"],
                rival_steps=parts["rival_steps"],
                held_confidences=parts["held_confidences"],
                held_owners=parts["held_owners"],
                inside_curve=_curve(header["inside_curve"], 4),
                which_curve=_curve(header["which_curve"], 2),
                doubt=_curve(header["doubt"], 2),
            )
    except (OSError, EOFError, LookupError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"the model cannot be read: {error}") from error


def _curve(values: Sequence[float], count: int) -> tuple[float, ...]:
    if len(values) != count:
        raise ValueError(f"a curve of {len(values)} numbers instead of {count}")
    return tuple(float(value) for value in values)
