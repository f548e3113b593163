"""Rerankers sort passages by how well they answer a question. One file per reranker."""

from toolgate.models.rerankers.base import CandidatePassage, Reranker, reranked

__all__ = ["CandidatePassage", "Reranker", "reranked"]
