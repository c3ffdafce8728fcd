package dev.starling.transport.spi;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.agrona.concurrent.UnsafeBuffer;

/** Helpers for tests of bare wires. */
public final class Wires {
    /** Length of the header of each message that {@link #offer} sends. */
    public static final int HEADER = 8;

    private static final UnsafeBuffer HEAD = new UnsafeBuffer(new byte[HEADER]);

    private Wires() { }

    /** Offers a message of a header and a body once; returns the link's code. */
    public static int offer(Link link, byte[] body) {
        return link.offer(HEAD, 0, HEADER, new UnsafeBuffer(body), 0, body.length);
    }

    /** Polls a wire once, and drops what arrives, but counts it as a proof; returns the amount of work. */
    public static int drive(Wire wire) {
        return wire.poll((buffer, offset, length) -> wire.onProof(), 16);
    }

    /** Polls wires and drops what arrives until a condition holds. */
    public static void await(BooleanSupplier condition, Wire... driven) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime()).as("in time").isLessThan(deadline);
            for (Wire wire : driven) {
                drive(wire);
            }
        }
    }
}
