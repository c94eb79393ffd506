"""What each synchronizer means."""
