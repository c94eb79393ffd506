"""What is measured: one module a question."""
