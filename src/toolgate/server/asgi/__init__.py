"""HTTP code that all endpoints share: authentication, host check, parsing."""
