"""Authentication, authorization, credentials and guards."""
