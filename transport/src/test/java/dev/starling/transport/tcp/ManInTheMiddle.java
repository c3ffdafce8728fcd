package dev.starling.transport.tcp;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/** Sits between links and the wire to which they connect; sees each of their frames, and decides what goes on. */
final class ManInTheMiddle implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final Attack attack;
    private final List<Socket> sockets = new ArrayList<>();
    private final AtomicReference<IOException> failure = new AtomicReference<>();
    private boolean closed;

    /** What becomes of a frame. */
    @FunctionalInterface
    interface Attack {
        /** Receives a frame of the connection of a number, from 0, and passes on what the peer is to receive. */
        void on(int connection, byte[] frame, Consumer<byte[]> forward);
    }

    /** Listens on an address, at the port of the loopback address to which it passes everything on. */
    ManInTheMiddle(String address, int target, Attack attack) throws IOException {
        this.target = target;
        this.attack = attack;
        listener = new ServerSocket(target, 8, InetAddress.getByName(address));
        start(this::accept);
    }

    private interface Work {
        void run() throws IOException;
    }

    private void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (EOFException | SocketException e) {
                // An end closed the connection, or the test ended.
                close(sockets());
            } catch (IOException e) {
                failure.compareAndSet(null, e);
            }
        }, "man in the middle");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() throws IOException {
        for (int number = 0;; number++) {
            Socket from = add(listener.accept());
            Socket to = add(new Socket(InetAddress.getByName("127.0.0.1"), target));
            int connection = number;
            start(() -> attack(connection, from, to));
            start(() -> {
                to.getInputStream().transferTo(from.getOutputStream());
                from.shutdownOutput();
            });
        }
    }

    private void attack(int connection, Socket from, Socket to) throws IOException {
        DataInputStream in = new DataInputStream(from.getInputStream());
        OutputStream out = to.getOutputStream();
        out.write(in.readNBytes(Unit.PREAMBLE));
        while (true) {
            byte[] header = new byte[Unit.MESSAGE_HEADER];
            try {
                in.readFully(header);
            } catch (EOFException e) {
                to.shutdownOutput();
                return;
            }
            byte[] frame = new byte[ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN).getInt(4)];
            in.readFully(frame);
            in.skipNBytes(Unit.padding(frame.length));
            List<byte[]> forwarded = new ArrayList<>();
            attack.on(connection, frame, forwarded::add);
            for (byte[] each : forwarded) {
                out.write(ByteBuffer.allocate(Unit.messageUnit(each.length)).order(ByteOrder.LITTLE_ENDIAN)
                        .putInt(Unit.MESSAGE).putInt(each.length).put(each).array());
            }
        }
    }

    private synchronized Socket add(Socket socket) throws IOException {
        if (closed) {
            socket.close();
        }
        socket.setTcpNoDelay(true);
        sockets.add(socket);
        return socket;
    }

    private synchronized List<Socket> sockets() {
        return closed ? List.copyOf(sockets) : List.of();
    }

    private static void close(List<Socket> sockets) {
        for (Socket socket : sockets) {
            TcpWire.close(socket);
        }
    }

    @Override
    public void close() throws IOException {
        synchronized (this) {
            closed = true;
        }
        listener.close();
        close(sockets());
        if (failure.get() != null) {
            throw failure.get();
        }
    }
}
