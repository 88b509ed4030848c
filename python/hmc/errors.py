"""HMC's exceptions."""


class Error(RuntimeError):
    """A call of HMC has failed.

    >>> import hmc
    >>> with hmc.init() as rt:
    ...     try:
    ...         rt.world.broadcast(bytearray(8), root=7)
    ...     except hmc.Error as error:
    ...         error.code, error.rank, error.operation
    ('bad_rank', 0, 'broadcast')
    """

    code: str  #: the name of the error code: "peer_failed", "timeout", "mismatch", "closed", ...
    operation: str  #: the call that failed: "allreduce", "put", "Window::create"
    rank: int  #: the world rank that reports the error; -1: none
    peer: int  #: the target, or the rank that failed; -1: none
    message: str  #: the cause
    hint: str  #: a suggested fix, or ""
    sys_errno: int  #: the system's error number, or 0

    def __init__(self, text="", code="error", operation="", rank=-1, peer=-1, message="", hint="", sys_errno=0):
        super().__init__(text)
        self.code, self.operation, self.rank, self.peer = code, operation, rank, peer
        self.message, self.hint, self.sys_errno = message, hint, sys_errno

    def __reduce__(self):
        return type(self), (
            str(self), self.code, self.operation, self.rank, self.peer, self.message, self.hint, self.sys_errno)


class PeerFailed(Error):
    """A rank died: ``peer``."""


class Timeout(Error, TimeoutError):
    """The job's timeout (HMC_TIMEOUT_S) or that of the call has passed. The text names the missing ranks."""


class Mismatch(Error):
    """The ranks of a team called different collectives, or passed different arguments; or a message is longer than the array of
    its receive."""


_types = {"peer_failed": PeerFailed, "timeout": Timeout, "mismatch": Mismatch}


def _of_core(text, code, *details):
    return _types.get(code, Error)(text, code, *details)
