"""HTTP pieces that all endpoints share: authentication, host check, parsing."""
