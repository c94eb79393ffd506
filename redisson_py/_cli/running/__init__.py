"""The command of `redisson-py run` as a child process: its signals, its terminal, its end."""
