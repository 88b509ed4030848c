"""The backend in Python over the package hmc, for machines without a C++ compiler, and for torch 2.14 and newer only: older
releases have no backends in Python.

It has the operations of data-parallel and sharded training, and messages; the rest fails with torch's error "does not support".
Each call costs about 50 us more than with the adapter. `get_future` waits for the operation, so nothing overlaps with it. torch
doesn't ask these works for `is_completed` or the source of a message. destroy_process_group waits for the other ranks.
"""

import atexit
import datetime
import functools
import os

import torch
import torch.distributed as dist

import hmc
from hmc import _core

_Base = torch._C._distributed_c10d.Backend
_open = []  # all backends: torch keeps only their part in C++


class _Work(torch._C._distributed_c10d.Work):
    def __init__(self, outputs, requests, finish=None):
        super().__init__()
        self._outputs, self._requests, self._finish = outputs, requests, finish

    def wait(self, timeout=datetime.timedelta(0)):
        seconds = timeout.total_seconds()
        while self._requests:
            if seconds > 0:
                self._requests[0].wait(seconds)
            else:
                self._requests[0].wait()
            del self._requests[0]
        if self._finish is not None:
            self._finish()
            self._finish = None
        return True

    def get_future(self):
        future = torch.futures.Future()
        try:
            self.wait()
            future.set_result(self._outputs)
        except hmc.Error as error:
            future.set_exception(RuntimeError(f"hmc: {error}"))
        return future


def _plain(tensor):
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise RuntimeError(f"without a C++ compiler there are only dense tensors on the CPU, not {tensor.layout} on {tensor.device}")
    return tensor.detach().contiguous()


def _bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8)


def _numbers(tensor):
    """The elements as the package hmc reduces them."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.reshape(-1).view(torch.uint8) if tensor.dtype == torch.bool else tensor.reshape(-1)


def _op(reduce_op, tensor):
    names = {dist.ReduceOp.SUM: ("sum", "lor"), dist.ReduceOp.AVG: ("avg", None), dist.ReduceOp.PRODUCT: ("prod", "land"),
             dist.ReduceOp.MIN: ("min", "land"), dist.ReduceOp.MAX: ("max", "lor"), dist.ReduceOp.BAND: ("band", "land"),
             dist.ReduceOp.BOR: ("bor", "lor"), dist.ReduceOp.BXOR: ("bxor", "bxor")}
    for each, (number, boolean) in names.items():
        if reduce_op == each:
            name = boolean if tensor.dtype == torch.bool else number
            if name is None or tensor.is_complex() and name not in ("sum", "avg"):
                break
            return getattr(hmc, name)
    raise RuntimeError(f"no reduction {reduce_op} of {tensor.dtype}")


def _operation(name, is_message=False):
    """A method whose errors name the operation, its number in the group, and the rank. Errors of the work's wait don't."""
    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments):
            number = "" if is_message else f", operation {self._operations + 1}"
            try:
                result = method(self, *arguments)
            except (RuntimeError, ValueError, TypeError) as error:
                error.args = (f"hmc: {name}{self._context}{number}]: {error}", *error.args[1:])
                raise
            self._operations += not is_message
            return result

        return call

    return decorate


class PythonBackend(_Base):
    def __init__(self, options):
        rank, size = options.group_rank, options.group_size
        super().__init__(rank, size)
        self._options = _Base.Options("hmc", options.timeout)
        suffix = "/" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "")

        def get(key, seconds):
            if seconds > 0:
                options.store.wait([key + suffix], datetime.timedelta(seconds=seconds))
            return options.store.get(key + suffix)

        self._runtime = _core._init_over_store(lambda key, value: options.store.set(key + suffix, value), get, rank, size,
                                               options.timeout.total_seconds())
        self._team = self._runtime.world
        self._size = size
        self._operations = 0
        self._context = f" [process group '{options.group_id}', rank {rank} of {size}"
        _open.append(self)

    def getBackendName(self):
        return "hmc"

    @property
    def options(self):
        return self._options

    def shutdown(self):
        if self in _open:
            _open.remove(self)
            self._team = None
            try:
                self._runtime.close()
            except hmc.Error:
                pass  # the ranks that fail here have ended

    def abort(self):
        self._runtime.abort(1, "abort was called on the process group")

    def set_timeout(self, timeout):
        self._options.timeout = timeout

    def _run(self, outputs, pairs, start):
        """Starts `start(plain)` for each pair of a tensor and its plain copy, and copies the results back at the end."""
        def finish():
            for tensor, plain in pairs:
                if plain.data_ptr() != tensor.data_ptr():
                    tensor.detach().copy_(plain)

        return _Work(outputs, start(), finish)

    # ---- one tensor per rank

    @_operation("broadcast")
    def broadcast(self, tensors, opts):
        plain = _plain(tensors[0])
        return self._run(tensors, [(tensors[0], plain)], lambda: [self._team.ibroadcast(_bytes(plain), opts.rootRank)])

    @_operation("all_reduce")
    def allreduce_coalesced(self, tensors, opts):
        pairs = [(each, _plain(each)) for each in tensors]
        return self._run(tensors, pairs, lambda: [self._team.iallreduce(_numbers(plain), op=_op(opts.reduceOp, plain))
                                                  for _, plain in pairs])

    allreduce = allreduce_coalesced

    @_operation("reduce")
    def reduce(self, tensors, opts):
        plain = _plain(tensors[0])
        is_root = opts.rootRank == self.rank()
        pairs = [(tensors[0], plain)] if is_root else []
        out = _numbers(plain) if is_root else None
        return self._run(tensors, pairs, lambda: [self._team.ireduce(_numbers(plain), out, op=_op(opts.reduceOp, plain),
                                                                    root=opts.rootRank)])

    @_operation("barrier")
    def barrier(self, opts):
        del opts
        return _Work([], [self._team.ibarrier()])

    # ---- blocks in one tensor

    @_operation("all_gather_into_tensor")
    def all_gather_single(self, output, input, opts):
        del opts
        return self._all_gather([output], [input])

    @_operation("all_gather_into_tensor_coalesced")
    def all_gather_single_coalesced(self, outputs, inputs, opts):
        del opts
        return self._all_gather(outputs, inputs)

    def _all_gather(self, outputs, inputs):
        pairs = [(each, _plain(each)) for each in outputs]
        return self._run(outputs, pairs, lambda: [self._team.iallgather(_bytes(_plain(one)), _bytes(plain))
                                                  for one, (_, plain) in zip(inputs, pairs)])

    @_operation("reduce_scatter_tensor")
    def reduce_scatter_single(self, output, input, opts):
        return self._reduce_scatter([output], [input], opts)

    @_operation("reduce_scatter_tensor_coalesced")
    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        return self._reduce_scatter(outputs, inputs, opts)

    def _reduce_scatter(self, outputs, inputs, opts):
        pairs = [(each, _plain(each)) for each in outputs]
        return self._run(outputs, pairs, lambda: [
            self._team.ireduce_scatter(_numbers(_plain(whole)), _numbers(plain), op=_op(opts.reduceOp, plain))
            for whole, (_, plain) in zip(inputs, pairs)])

    @_operation("all_to_all")
    def all_to_all_single(self, output, input, output_rows, input_rows, opts):
        del opts
        sent, received = _plain(input), _plain(output)

        def counts(tensor, rows):
            if not rows:
                return [tensor.nbytes // self._size] * self._size
            row = tensor.nbytes // max(tensor.shape[0], 1)
            return [each * row for each in rows]

        self._team.alltoallv(_bytes(sent), counts(sent, input_rows), _bytes(received), counts(received, output_rows))
        return self._run([output], [(output, received)], list)

    # ---- a tensor for each rank

    @_operation("all_gather")
    def allgather(self, outputs, inputs, opts):
        del opts
        plain, out = _plain(inputs[0]), torch.empty(sum(each.nbytes for each in outputs[0]), dtype=torch.uint8)
        counts = [each.nbytes for each in outputs[0]]
        return _Work(outputs[0], [self._team.iallgatherv(_bytes(plain), counts, out=out)], lambda: self._unpack(outputs[0], out))

    @_operation("gather")
    def gather(self, outputs, inputs, opts):
        plain, out = _plain(inputs[0]), None
        if opts.rootRank == self.rank():
            out = torch.empty(plain.nbytes * self._size, dtype=torch.uint8)
        return _Work(outputs[0] if outputs else [], [self._team.igather(_bytes(plain), out, opts.rootRank)],
                     lambda: self._unpack(outputs[0], out) if out is not None else None)

    @_operation("scatter")
    def scatter(self, outputs, inputs, opts):
        plain = _plain(outputs[0])
        whole = self._pack(inputs[0]) if opts.rootRank == self.rank() else None
        return self._run(outputs, [(outputs[0], plain)], lambda: [self._team.iscatter(whole, _bytes(plain), opts.rootRank)])

    @_operation("reduce_scatter")
    def reduce_scatter(self, outputs, inputs, opts):
        plain, parts = _plain(outputs[0]), [_numbers(_plain(each)) for each in inputs[0]]
        counts = [each.numel() for each in parts]
        return self._run(outputs, [(outputs[0], plain)], lambda: [
            self._team.ireduce_scatterv(torch.cat(parts), counts, out=_numbers(plain), op=_op(opts.reduceOp, plain))])

    @_operation("all_to_all")
    def alltoall(self, outputs, inputs, opts):
        del opts
        out = torch.empty(sum(each.nbytes for each in outputs), dtype=torch.uint8)
        self._team.alltoallv(self._pack(inputs), [each.nbytes for each in inputs], out, [each.nbytes for each in outputs])
        return _Work(outputs, [], lambda: self._unpack(outputs, out))

    @staticmethod
    def _pack(tensors):
        return torch.cat([_bytes(_plain(each)) for each in tensors])

    @staticmethod
    def _unpack(tensors, data):
        at = 0
        for each in tensors:
            if each.nbytes:
                each.detach().copy_(data[at:at + each.nbytes].clone().view(each.dtype).view(each.shape))
            at += each.nbytes

    # ---- messages

    @_operation("send", is_message=True)
    def send(self, tensors, destination, tag):
        return _Work(tensors, [self._team.isend(_bytes(_plain(tensors[0])), destination, tag)])

    @_operation("recv", is_message=True)
    def recv(self, tensors, source, tag):
        plain = _plain(tensors[0])
        return self._run(tensors, [(tensors[0], plain)], lambda: [self._team.irecv(_bytes(plain), source, tag)])


@atexit.register
def _leave_all():
    for each in list(_open):
        each.shutdown()
