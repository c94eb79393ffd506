"""The Lua scripts, called straight on a server: a module for each folder of `lua/`."""
