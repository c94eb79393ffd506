"""`python -m examples.tour`: every primitive does something that a person understands at once.

Each scene (`scenes/`) starts processes that use one primitive as a service would, strikes some
of them, and says what happened. What it says is checked: a wrong outcome ends the tour with
`WRONG`, what was expected, and a non-zero exit.

The functions in `scenes/` that take a `Me` are what runs in a process of its own, and what to
copy from; the `scene` function of each file directs them.
"""
