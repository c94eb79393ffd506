"""What a frozen program needs beside the modules: the Lua scripts."""

from redisson_py._redis.scripts.source import script_root

datas = [(str(script_root()), "redisson_py/_lua")]
