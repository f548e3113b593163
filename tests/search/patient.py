"""Options of a search that waits for its embeddings, however slow the machine is."""

from tests.limits import EMBEDDING_S
from toolgate.search.strategies.hybrid import Options

PATIENT = Options(embedding_wait_s=EMBEDDING_S, embed_timeout_s=EMBEDDING_S)
