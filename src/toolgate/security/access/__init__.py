"""One decision: may this caller see or use this. Everything asks here.

Also who the caller is (`Admission`), how much it may do (`Limits`), and looking after all of it.
"""

from toolgate.security.access.access_data import Book, Pages, project_table
from toolgate.security.access.administration import AccessAdmin, NewToken, ProjectView
from toolgate.security.access.admission import Admission, Shown
from toolgate.security.access.decision import Access, AllowAll, Mask, Step, Thing, Things, Verdict
from toolgate.security.access.limits import LIMITS, Limits
from toolgate.security.access.policy import Grounds, Place, Policy, ProjectRules
from toolgate.security.access.rules import (
    BUILT_IN,
    RIGHTS,
    Hint,
    Rule,
    parse_pattern,
    rules_of_file,
)

__all__ = [
    "BUILT_IN",
    "LIMITS",
    "RIGHTS",
    "Access",
    "AccessAdmin",
    "Admission",
    "AllowAll",
    "Book",
    "Grounds",
    "Hint",
    "Limits",
    "Mask",
    "NewToken",
    "Pages",
    "Place",
    "Policy",
    "ProjectRules",
    "ProjectView",
    "Rule",
    "Shown",
    "Step",
    "Thing",
    "Things",
    "Verdict",
    "parse_pattern",
    "project_table",
    "rules_of_file",
]
