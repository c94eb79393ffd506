"""Writes the classes of `redisson_py.sync` from those of `redisson_py`.

    python -m tests.sync.generate

Signatures and docstrings are those of the async classes, in the words of threads (`wording.py`);
the bodies pass the call on. A test fails if what is committed is not what this writes.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import subprocess
import sys
import textwrap
from types import ModuleType

from tests.support import repository
from tests.sync.layout import FILES, IMPORTS, File
from tests.sync.wording import in_words_of_threads

SYNC = repository.ROOT / "redisson_py" / "sync"

_ENTER = "def __enter__(self) -> {result}: ..."
_EXIT = """
def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    {body}
"""
_CLIENT_BLOCK = """
        def __enter__(self) -> Self:
            self._call(lambda own: own.__aenter__())
            return self
        """ + textwrap.indent(_EXIT.format(body="self.close()"), " " * 8)
#: Blocks, by class: what `with` binds, or the whole.
_HOLDABLE = {"LockLike": "Lease", "UnitsLike": "Permit"}
_BLOCKS = {
    "Lease": """
        def __enter__(self) -> Self:
            self._call(lambda own: own.__aenter__())
            return self
        """
    + textwrap.indent(
        _EXIT.format(body="self._call(lambda own: own.__aexit__(kind, error, trace))"), " " * 8
    ),
    "CyclicBarrier": """
        def __enter__(self) -> int:
            return self.wait()
        """
    + textwrap.indent(_EXIT.format(body="return"), " " * 8),
    "RateLimiter": """
        def __enter__(self) -> Self:
            self.acquire()
            return self
        """
    + textwrap.indent(_EXIT.format(body="return"), " " * 8),
    "TwoSides": """
        if not TYPE_CHECKING:

            def __enter__(self, *_: object) -> NoReturn:
                raise TypeError(
                    f"{type(self).__name__} is not a context manager: write"
                    " `with lock.read_lock():` or `with lock.write_lock():`"
                )

            __exit__ = __enter__
        """,
    "Redisson": _CLIENT_BLOCK,
    "StoreClient": _CLIENT_BLOCK,
}
#: Methods whose names or signatures differ from the async ones; a test has the same list.
WRITTEN = {
    ("Lease", "wait_lost"): '''
        def wait_lost(self, timeout: Duration | None = None) -> bool:
            """Wait until the lease is lost; return whether it is.

            For another thread than that of the body, such as one that stops a child process. A
            lease that is released is never lost: give a timeout where that may happen.

            Args:
                timeout: Seconds to wait. Default: waits forever.

            Raises:
                ClientClosedError: The client was closed meanwhile.
                TypeError: The timeout is neither a number nor a timedelta.
                ValueError: It is negative or NaN.
            """
            return self._call(lambda own: until_lost(own, timeout))
        ''',
    ("_Guarding", "guard"): '''
        def guard(self, connection: Any) -> None:
            """Protect the rest of a transaction: nobody else gets the lock before it has ended.

            Call it first in a transaction of yours, on a connection to the database of the locks:
            of psycopg or psycopg2, Django's `django.db.connection`, or SQLAlchemy's
            `session.connection().connection`. From then on a takeover waits for the end of the
            transaction, even if this lease runs out or is released meanwhile; renewals and the
            release do not wait. So a paused holder commits what it wrote while it held the lock, or
            nothing. Keep the transaction short: while it lasts nobody gets the lock, not even this
            thread once it has released it.

            Cost: two statements, on your connection. Interruption is harmless: the transaction is
            yours to roll back. Errors of the driver are yours too.

            Raises:
                LeaseLostError: The lease is gone already; roll the transaction back.
                NotHeldError: It was released already.
                RuntimeError: The connection is not inside a transaction; nothing is protected.
                BackendError: The connection does not see the table of locks.
                ClientClosedError: The client was closed.
                TypeError: It is no such connection; nothing was sent.
            """
            guard_transaction(self, connection)
        ''',
}
#: Bodies that do not simply pass on.
_BODIES = {
    ("Lease", "__bool__"): "return True",
    ("Redisson", "aclose"): "self._close()",
    # Not that of the client that is never used.
    ("Redisson", "id"): "client_id: str = self._working.id\nreturn client_id",
    ("Redisson", "__init__"): "self._build(AsyncRedisson, client, options)",
    ("Redisson", "from_file"): (
        "self = cls.__new__(cls)\nself._build(AsyncRedisson.from_file, path, options)\nreturn self"
    ),
    ("OnceLease", "complete"): "complete(self, result, connection)",
    ("Once", "complete"): "complete(self, result, connection)",
    # The task of a thread has entered it, and knows it.
    ("Once", "done"): "return self._call(entered).done",
    ("Once", "result"): "return self._call(entered).result",
    # The function runs in the caller's thread, not in that of the event loop.
    ("Once", "run"): (
        "if not callable(func):\n"
        '    raise TypeError(f"func must be callable, not {type(func).__name__}")\n'
        "with self.hold() as once:\n"
        "    if not once.done:\n"
        "        value: Any = func(*args)\n"
        '        once.complete(b"" if value is None else value)\n'
        "    found: str | bytes = once.result\n"
        "return found"
    ),
    ("Redisson", "get_multi_lock"): "return MultiLock(*locks)",
    ("Redisson", "get_red_lock"): "return RedLock(*locks)",
    ("MultiLock", "__init__"): (
        "super().__init__(lambda of: AsyncMultiLock(*[of(lock) for lock in locks]))"
    ),
    ("RedLock", "__init__"): (
        "super().__init__(lambda of: AsyncRedLock(*[of(lock) for lock in locks]))"
    ),
    ("TwoSides", "read_lock"): "return self._read_kind(lambda of: of(self).read_lock())",
    ("TwoSides", "write_lock"): "return self._write_kind(lambda of: of(self).write_lock())",
    ("StoreClient", "aclose"): "self._close()",
    ("StoreClient", "id"): "client_id: str = self._working.id\nreturn client_id",
    # Async it is the class that it is annotated with, and no class of its own.
    ("StoreClient", "get_fenced_lock"): (
        "return FencedStoreLock(lambda of: of(self).get_fenced_lock(name))"
    ),
    ("RateLimiter", "__call__"): "return decorate(self, func, lambda filled: filled)",
}
#: What type variables are called.
_RESULTS = {"R": "Read", "W": "Write"}
#: What stands behind the docstring of a class.
_FIELDS = {
    "TwoSides": "_read_kind: type[Read]\n_write_kind: type[Write]",
    "ReadWriteLock": "_read_kind = ReadLock\n_write_kind = WriteLock",
    "StoreReadWriteLock": "_read_kind = StoreReadLock\n_write_kind = StoreWriteLock",
}
#: Decorators that are other ones here.
_MARKS = {"_keeping": "explained", "acquiring": "explained"}
#: How an argument that may be one of ours is given to the async client.
_UNWRAPPED = {
    "Permit | str": "shape_of({0})",
    "Iterable[Permit | str]": "[shape_of(each) for each in {0}]",
}


def generate() -> dict[str, str]:
    """Return the text of each file, by its name."""
    return {name: _format(_file(name, file)) for name, file in FILES.items()}


def _file(name: str, file: File) -> str:
    parts = [
        f'"""{file.doc}\n\nWritten by `python -m tests.sync.generate`: do not edit.\n"""',
        "from __future__ import annotations",
        "\n".join(row for row in IMPORTS.splitlines() if f"sync.{name} " not in row),
        file.before,
        *[_class(module, kind, bases) for module, kind, bases in file.classes],
        file.after,
    ]
    return "\n\n".join(parts)


def _class(module: ModuleType, name: str, bases: str) -> str:
    tree = ast.parse(inspect.getsource(module))
    (node,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    final = any(isinstance(each, ast.Name) and each.id == "final" for each in node.decorator_list)
    head = ["@final"] if final else []
    head.append(f"class {name}({bases}):")
    body = [_docstring(node, name), _FIELDS.get(name, "")]
    if name.endswith("Options"):
        body += [_option(each) for each in node.body if isinstance(each, ast.AnnAssign)]
        return "\n".join([*head, textwrap.indent("\n".join(body), "    ")])
    body += [
        ast.unparse(each)
        for each in node.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "kind"
    ]
    for each in node.body:
        if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef) and _is_public(name, each.name):
            body.append(_method(name, each))
        elif isinstance(each, ast.If) and name == "LockOf":
            body.append(_narrowed(each))
    if name in _HOLDABLE:
        body.append(_halves(_HOLDABLE[name]))
    body.append(textwrap.dedent(_BLOCKS.get(name, "")))
    return "\n".join([*head, textwrap.indent("\n\n".join(body), "    ")])


def _option(node: ast.AnnAssign) -> str:
    if ast.unparse(node.target) == "on_lost":
        return "on_lost: OnLost"
    return ast.unparse(node)


def _is_public(owner: str, name: str) -> bool:
    # Only clients are made by users.
    return not name.startswith("_") or name == "__call__" or (owner, name) in _BODIES


def _halves(result: str) -> str:
    typed = textwrap.indent(_ENTER.format(result=result) + _EXIT.format(body="..."), "    ")
    return f"if TYPE_CHECKING:\n\n{typed}\nelse:\n    __enter__ = Half()\n    __exit__ = Half()\n"


def _narrowed(node: ast.If) -> str:
    """Return the methods of locks which bring another kind of lease."""
    typed = []
    for each in node.body:
        assert isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef)
        changed = _signature(each)
        if each.name == "__aenter__":
            changed = "def __enter__(self) -> L_co:"
        typed.append(f"{changed} ...  # noqa: D102" if each.name[0] != "_" else f"{changed} ...")
    return "if TYPE_CHECKING:\n\n" + textwrap.indent("\n\n".join(typed), "    ")


def _method(owner: str, node: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    key = (owner, node.name)
    if key in WRITTEN:
        return textwrap.dedent(WRITTEN[key]).strip()
    marks = [_MARKS.get(mark, mark) for mark in map(ast.unparse, node.decorator_list)]
    is_property = "property" in marks
    head = [f"@{mark}" for mark in marks if mark != "abstractmethod"]
    text = [*head, _signature(node)]
    if ast.get_docstring(node):
        text.append(textwrap.indent(_docstring(node, owner), "    "))
    text.append(textwrap.indent(_body(owner, node, is_property), "    "))
    return "\n".join(text)


def _signature(node: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    plain = copy.deepcopy(node)
    name = "close" if node.name == "aclose" else node.name
    returns = ast.unparse(plain.returns) if plain.returns else "None"
    if node.name == "__call__":
        return f"def {name}(self, func: Callable[P, R]) -> Callable[P, R]:"
    returns = _RESULTS.get(returns, returns)
    returns = re.sub(r"^HoldBlock\[[^,]+, ", "HoldBlock[", returns)
    returns = re.sub(r"^AsyncGenerator\[", "Observation[", returns)
    return f"def {name}({ast.unparse(plain.args)}) -> {returns}:"


def _body(owner: str, node: ast.AsyncFunctionDef | ast.FunctionDef, is_property: bool) -> str:
    key = (owner, node.name)
    if key in _BODIES:
        return _BODIES[key]
    name = node.name
    passed = ", ".join(_passed(node))
    returns = ast.unparse(node.returns) if node.returns else "None"
    if owner == "Locks":
        return "..."
    if name == "from_url":
        named = "".join(f'"{each.arg}": {each.arg}, ' for each in node.args.kwonlyargs)
        given = f"{{{named}**options}}" if named else "options"
        return (
            "self = cls.__new__(cls)\n"
            f"self._build(Async{owner}.from_url, url, {given})\nreturn self"
        )
    if returns.startswith("AsyncGenerator["):
        return f"return Observation(self, lambda own: own.{name}({passed}))"
    if name == "__call__":
        return "return decorate(self, func, lambda filled: filled.hold())"
    if is_property:
        return _returned(returns, f"self._shape.{name}")
    if (owner, name) == ("Lease", "check"):
        return "self._shape.check()"
    if name.startswith("get_"):
        return f"return {returns}(lambda of: of(self).{name}({passed}))"
    if name in ("hold", "campaign"):
        # The first line checks the arguments.
        call = f"{name}({passed})"
        return f"self._shape.{call}\nreturn HoldBlock(self, lambda own: own.{call})"
    if name == "statistics":
        return _returned(returns, "self._look(lambda own: own.statistics())")
    assert isinstance(node, ast.AsyncFunctionDef), key
    brings_leases = any(word in returns for word in ("Lease", "Permit", "Leadership", "L_co"))
    how = "self._acquire" if brings_leases else "self._call"
    variable = "outcome" if any(each.arg == "value" for each in node.args.args) else "value"
    return _returned(returns, f"{how}(lambda own: own.{name}({passed}))", variable)


def _returned(kind: str, value: str, variable: str = "value") -> str:
    """Return what returns a value whose type nobody knows."""
    return value if kind == "None" else f"{variable}: {kind} = {value}\nreturn {variable}"


def _passed(node: ast.AsyncFunctionDef | ast.FunctionDef) -> list[str]:
    arguments = node.args
    passed = [_unwrapped(each) for each in arguments.args[1:]]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{each.arg}={_unwrapped(each)}" for each in arguments.kwonlyargs]
    return passed


def _unwrapped(argument: ast.arg) -> str:
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    return _UNWRAPPED.get(kind, "{0}").format(argument.arg)


def _docstring(node: ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef, owner: str) -> str:
    text = ast.get_docstring(node)
    assert text, node.name
    worded = in_words_of_threads(text, (owner, node.name))
    rows = worded.splitlines()
    quoted = "\n".join([f'"""{rows[0]}', *rows[1:]])
    return quoted + ('\n"""' if len(rows) > 1 else '"""')


def _format(text: str) -> str:
    for arguments in (
        ("check", "--select=F401,UP,RUF100", "--fix", "--quiet"),
        # Behind that: of imports that were joined before, a comma would be left.
        ("check", "--select=I", "--fix", "--quiet"),
        ("format",),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(SYNC / "x.py"), "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=repository.ROOT,
        )
        if done.returncode:
            raise RuntimeError(f"{done.stderr}\n{text}")
        text = done.stdout
    return text


if __name__ == "__main__":
    for name, text in generate().items():
        (SYNC / f"{name}.py").write_text(text, "utf-8")
