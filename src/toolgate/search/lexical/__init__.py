"""Search by words: tokenizer, inverted index, BM25."""
