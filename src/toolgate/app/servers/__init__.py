"""Builds what connects to servers, and knows which servers are configured."""
