"""The pack for questions to documents: finding passages, listing collections."""
