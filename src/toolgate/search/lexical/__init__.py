"""Search by words: query, inverted index, BM25."""
