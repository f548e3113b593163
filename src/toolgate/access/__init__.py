"""One decision: may this caller see or use this. Everything asks here."""

from toolgate.access._decision import Access, AllowAll, Verdict

__all__ = ["Access", "AllowAll", "Verdict"]
