"""Rerankers: put passages in the order in which they answer a question. One file per reranker."""

from toolgate.models.rerankers.base import CandidatePassage, Reranker, reranked

__all__ = ["CandidatePassage", "Reranker", "reranked"]
