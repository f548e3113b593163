"""What was asked, decided and answered."""
