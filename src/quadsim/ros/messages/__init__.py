"""Messages to records and back."""
