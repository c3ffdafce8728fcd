package dev.starling.distributed.hostile;

import java.io.IOException;
import java.util.SplittableRandom;

/** One way to attack the ports of a process. Confined to one thread. */
interface Attack extends AutoCloseable {
    /** Opens one connection or sends one datagram to a port, and continues earlier connections. */
    void strike(int port, SplittableRandom random) throws IOException;

    /** Continues earlier connections, and checks what has arrived: nothing but what any process may know. */
    void receive() throws IOException;

    /** Returns the number of bytes that arrived at the stranger. */
    long received();

    @Override
    void close() throws IOException;
}
