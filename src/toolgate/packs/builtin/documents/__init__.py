"""The pack for questions about documents: finding passages, listing collections."""
