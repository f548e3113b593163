"""The SQL function `nearest_mcp_tools`, for other programs that search tools in the database.

Source document 003 sorts the rows of `mcp_tool_embeddings` by distance. That compares every row,
since each HNSW index covers the vectors of one model. The function names the model as a
constant, so that the query can use its index.
"""

from typing import Any, Final

_SCANS_ON: Final = (0, 8)
"""First version of pgvector with iterative index scans, which go on if a filter excluded too
much. https://github.com/pgvector/pgvector#iterative-index-scans"""

_HEAD: Final = """
CREATE OR REPLACE FUNCTION nearest_mcp_tools(
  query vector, project text DEFAULT 'default', most integer DEFAULT 8,
  threshold double precision DEFAULT 0, model text DEFAULT NULL)
RETURNS TABLE (server text, tool_name text, enriched_description text,
  similarity double precision)
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS"""

_BODY: Final = """
DECLARE
  size integer := vector_dims(query);
  collection text;
BEGIN
  SELECT m.collection_id INTO collection FROM vector_models m
  WHERE m.dim = size AND (nearest_mcp_tools.model IS NULL OR m.model = nearest_mcp_tools.model)
  ORDER BY m.used_at DESC LIMIT 1;
  IF collection IS NULL THEN
    RAISE EXCEPTION 'No model here gives vectors of % numbers.', size
      USING HINT = 'Embed the query with the model that toolgate index status shows.';
  END IF;
  PERFORM set_config('hnsw.ef_search', least(1000, greatest(100, 2 * most))::text, true);
  PERFORM set_config('hnsw.iterative_scan', 'strict_order', true) WHERE SCANS_ON;
  RETURN QUERY EXECUTE format(
    'SELECT t.server::text, t.tool::text, t.enriched::text,
       1 - (n.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s))
     FROM vector_nearest n JOIN tool_texts t ON t.text_hash = n.key
     WHERE n.collection_id = %2$L AND t.project_id = $2
       AND 1 - (n.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s)) > $3
     ORDER BY n.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s) LIMIT $4', size, collection)
  USING query, project, threshold, most;
END
"""


def make_nearest_tools(driver: Any, version: tuple[int, ...]) -> None:
    """Create the function, unless its current version exists.

    Args:
        driver: A connection that has pgvector's schema in its search path.
        version: Version of pgvector.
    """
    body = _BODY.replace("SCANS_ON", "true" if version >= _SCANS_ON else "false")
    row = driver.execute(
        "SELECT prosrc FROM pg_proc"
        " WHERE proname = 'nearest_mcp_tools' AND pronamespace = current_schema()::regnamespace"
    ).fetchone()
    if row is None or row[0] != body:
        driver.execute(f"{_HEAD} $function${body}$function$")
