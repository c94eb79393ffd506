"""Jepsen at home: worker processes, a nemesis, a referee, and checkers over what they recorded."""
