"""hmc.Session: two programs without a launcher. The client puts an array into the server's buffer and notifies the server
by a control message. The server changes the array, and the client reads it back.

  terminal 1:  python two_terminals.py server 10.0.0.1
  terminal 2:  python two_terminals.py client 10.0.0.1       the server's address

On two machines, or as two users, set the same secret first: export HMC_SECRET=<64 hex digits, made by `openssl rand -hex 32`>
"""

import array
import sys

import hmc

UCX_PORT, RDMA_PORT, CONTROL_PORT = 2025, 2026, 5001
SERVER, CLIENT = 0, 1  # ids
COUNT = 100_000


def numbers(factor):
    return array.array("q", (factor * i for i in range(COUNT)))


def serve(ip):
    session = hmc.create_session(buffer_size=8 << 20, local_ip=ip)
    session.init_server(bind_ip=ip, ucx_port=UCX_PORT, rdma_port=RDMA_PORT, ctrl_tcp_port=CONTROL_PORT, self_id=SERVER)
    print(f"server: waiting on {ip}", flush=True)
    for conn in (hmc.ConnType.UCX, hmc.ConnType.RDMA):
        tag = session.ctrl_recv(CLIENT)
        values = array.array("q", bytes(8 * COUNT))
        session.buf.get_into(values, nbytes=8 * COUNT)
        assert values == numbers(3 + conn), "the client's numbers"
        session.buf.put(numbers(-7 - conn))
        session.ctrl_send(CLIENT, tag + 1)
    session.ctrl_recv(CLIENT)  # the client has read the numbers
    session.close_server()
    print(f"server: received and answered {COUNT} numbers twice")


def connect(ip):
    session = hmc.create_session(buffer_size=8 << 20)
    for conn, port in ((hmc.ConnType.UCX, UCX_PORT), (hmc.ConnType.RDMA, RDMA_PORT)):
        session.connect(peer_id=SERVER, self_id=CLIENT, peer_ip=ip, data_port=port, ctrl_tcp_port=CONTROL_PORT, conn=conn)
        session.buffer_put_then_put(ip, port, numbers(3 + conn), conn=conn)  # now the numbers are at the server
        session.ctrl_send(SERVER, 41)
        assert session.ctrl_recv(SERVER) == 42, "the server's tag"
        values = array.array("q", bytes(8 * COUNT))
        session.get_then_buffer_get_into(ip, port, values, conn=conn)
        assert values == numbers(-7 - conn), "the server's numbers"
    session.ctrl_send(SERVER, 0)
    print(f"client: put and read back {COUNT} numbers twice")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("server", "client"):
        sys.exit(f"usage: {sys.argv[0]} server|client ADDRESS")
    {"server": serve, "client": connect}[sys.argv[1]](sys.argv[2])
