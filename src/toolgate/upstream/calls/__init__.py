"""One call to a server: its deadline and questions, its errors, and the server's health."""
