"""What stores other than Redis must do, and what they have in common."""
