package dev.starling.jmh.cluster;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RegionKey;
import dev.starling.transport.RemoteRegion;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import org.agrona.concurrent.UnsafeBuffer;

/** One of two ends of a Starling transport. */
final class TransportMember implements Member {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final long SPIN_NS = 20_000;
    private static final VarHandle LONG = ValueLayout.JAVA_LONG.varHandle();

    private final int rank;
    private final Transport transport;
    private final MemoryRegion region;
    private final RemoteRegion remote;
    private final UnsafeBuffer message = new UnsafeBuffer(new byte[64 << 10]);
    private Endpoint peer;
    private long received;
    private long expected;
    private long puts;

    TransportMember(TransportConfig config, int rank, Path directory) throws IOException, InterruptedException {
        this.rank = rank;
        transport = Transport.open(config);
        transport.onMessage((from, buffer, offset, length) -> {
            peer = from;
            received++;
        });
        region = transport.register(1 << 20);
        SharedValues.publish(directory, "key" + rank, HexFormat.of().formatHex(region.key().encode()));
        if (rank == 0) {
            peer = transport.connect(value(directory, "address"), new byte[0]);
            transport.await(peer::isConnected, TIMEOUT, "the peer");
            send(8);
        } else {
            SharedValues.publish(directory, "address", transport.address());
            receive();
            send(8);
        }
        if (rank == 0) {
            receive();
        }
        remote = peer.open(RegionKey.decode(HexFormat.of().parseHex(value(directory, "key" + (1 - rank)))));
    }

    private static String value(Path directory, String name) throws IOException, InterruptedException {
        return SharedValues.await(directory, name);
    }

    private void send(int bytes) {
        while (peer.send(message, 0, bytes) != Endpoint.OK) {
            transport.doWork();
        }
    }

    private void receive() {
        expected++;
        transport.await(() -> received >= expected, TIMEOUT, "a message");
    }

    @Override
    public long time(Measure measure, int bytes, int runs) {
        roundTrip(bytes);
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            if (measure == Measure.PUT) {
                putThereAndBack(bytes);
            } else {
                roundTrip(bytes);
            }
        }
        long nanos = System.nanoTime() - start;
        return measure == Measure.PUT ? nanos / 2 : nanos;
    }

    private void roundTrip(int bytes) {
        if (rank == 0) {
            send(bytes);
            receive();
        } else {
            receive();
            send(bytes);
        }
    }

    private void putThereAndBack(int bytes) {
        puts++;
        if (rank == 0) {
            put(bytes);
            awaitPut(bytes);
        } else {
            awaitPut(bytes);
            put(bytes);
        }
    }

    /** Writes a number into the second half of the peer's region, from the first half of this member's region. */
    private void put(int bytes) {
        LONG.setRelease(region.memory(), (long) bytes - Long.BYTES, puts);
        while (peer.put(region, 0, remote, region.bytes() / 2, bytes, null) != Endpoint.OK) {
            transport.doWork();
        }
    }

    private void awaitPut(int bytes) {
        long at = region.bytes() / 2 + bytes - Long.BYTES;
        long begin = System.nanoTime();
        while ((long) LONG.getAcquire(region.memory(), at) != puts) {
            long idleNs = System.nanoTime() - begin;
            if (idleNs > TIMEOUT.toNanos()) {
                throw new IllegalStateException("no put arrived within " + TIMEOUT + "");
            }
            // A write into memory that both ends map becomes visible without any work of the transport.
            if (remote.memory() == null || idleNs > SPIN_NS) {
                transport.doWork();
            }
            transport.idle(idleNs);
        }
    }

    @Override
    public void idle() {
        transport.doWork();
    }

    @Override
    public void close() {
        remote.close();
        transport.close();
    }
}
