"""Builds the connections to servers, and manages which servers are configured."""
