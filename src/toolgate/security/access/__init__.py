"""Access decisions: whether a caller may see or use something.

Also authentication of callers (`Admission`), their usage limits (`UsageLimits`), and the
administration of all this.
"""

from toolgate.security.access.access_data import AccessData, AccessSnapshot, project_table
from toolgate.security.access.administration import AccessAdmin, NewToken, ProjectView
from toolgate.security.access.decision import (
    Access,
    AccessDecision,
    AllowAll,
    DecisionStep,
    Mask,
    Resource,
    ResourceSnapshot,
)
from toolgate.security.access.input_checks import project_searches
from toolgate.security.access.limits import LIMITS, UsageLimits
from toolgate.security.access.policy import Policy, PolicyInputs, ProjectRules, Resources
from toolgate.security.access.request_authentication import Admission, PresentedCredentials
from toolgate.security.access.resource_spellings import uri_readings
from toolgate.security.access.rules import (
    BUILT_IN,
    RIGHTS,
    AccessRule,
    Hint,
    is_switched_on,
    parse_pattern,
    rules_of_file,
)
from toolgate.security.access.tool_matrix import matches_pattern

__all__ = [
    "BUILT_IN",
    "LIMITS",
    "RIGHTS",
    "Access",
    "AccessAdmin",
    "AccessData",
    "AccessDecision",
    "AccessRule",
    "AccessSnapshot",
    "Admission",
    "AllowAll",
    "DecisionStep",
    "Hint",
    "Mask",
    "NewToken",
    "Policy",
    "PolicyInputs",
    "PresentedCredentials",
    "ProjectRules",
    "ProjectView",
    "Resource",
    "ResourceSnapshot",
    "Resources",
    "UsageLimits",
    "is_switched_on",
    "matches_pattern",
    "parse_pattern",
    "project_searches",
    "project_table",
    "rules_of_file",
    "uri_readings",
]
