"""What is shown of runs: numbers over time, a table of text, a page of HTML."""
