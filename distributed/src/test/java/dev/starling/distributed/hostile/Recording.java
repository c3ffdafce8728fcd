package dev.starling.distributed.hostile;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.NanoClock;

/**
 * The frames of a genuine connection to a member, in both directions, as a stranger sees them that reads the network: a
 * process with the secret connects, proves that it has the secret, and leaves.
 */
final class Recording implements Wire {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    private final Wire wire;
    private final List<byte[]> frames = new ArrayList<>();

    private Recording(Wire wire) {
        this.wire = wire;
    }

    /** Connects to processes with the right secret; returns the frames that were exchanged. */
    static List<byte[]> of(TransportConfig config, List<String> addresses) {
        Recording recording = new Recording(Transport.providers().get(config.provider()).open(config.wire()));
        try (Transport transport = Transport.over(recording, config)) {
            for (String address : addresses) {
                Endpoint endpoint = transport.connect(address, new byte[3]);
                // A member closes the connection of a process that is not in its view; the coordinator waits.
                transport.await(() -> endpoint.isConnected() || endpoint.state() == Endpoint.State.LOST, TIMEOUT,
                        "a connection to " + address);
                endpoint.close();
            }
        }
        return recording.frames;
    }

    static void write(List<byte[]> frames, Path file) throws IOException {
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(file))) {
            for (byte[] frame : frames) {
                out.writeInt(frame.length);
                out.write(frame);
            }
        }
    }

    static List<byte[]> read(Path file) throws IOException {
        List<byte[]> frames = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(Files.newInputStream(file))) {
            while (true) {
                byte[] frame = new byte[in.readInt()];
                in.readFully(frame);
                frames.add(frame);
            }
        } catch (EOFException e) {
            return frames;
        }
    }

    private void record(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        byte[] frame = new byte[headerLength + bodyLength];
        header.getBytes(headerOffset, frame, 0, headerLength);
        if (bodyLength > 0) {
            body.getBytes(bodyOffset, frame, headerLength, bodyLength);
        }
        frames.add(frame);
    }

    @Override
    public int poll(Inbox inbox, int limit) {
        return wire.poll((buffer, offset, length) -> {
            record(buffer, offset, length, null, 0, 0);
            inbox.onMessage(buffer, offset, length);
        }, limit);
    }

    @Override
    public Link open(String peer) {
        Link link = wire.open(peer);
        return new Link() {
            @Override
            public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
                    int bodyLength) {
                int code = link.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
                if (code == SENT) {
                    record(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
                }
                return code;
            }

            @Override
            public boolean hasRoom(int length) {
                return link.hasRoom(length);
            }

            @Override
            public void close() {
                link.close();
            }
        };
    }

    @Override
    public String address() {
        return wire.address();
    }

    @Override
    public int maxMessageLength() {
        return wire.maxMessageLength();
    }

    @Override
    public int bulkMessageLength() {
        return wire.bulkMessageLength();
    }

    @Override
    public boolean opensImmediately(String peer) {
        return wire.opensImmediately(peer);
    }

    @Override
    public boolean leavesHost(String peer) {
        return wire.leavesHost(peer);
    }

    @Override
    public RemoteWrites remoteWrites() {
        return wire.remoteWrites();
    }

    @Override
    public void onProof() {
        wire.onProof();
    }

    @Override
    public void onSignature() {
        wire.onSignature();
    }

    @Override
    public NanoClock clock() {
        return wire.clock();
    }

    @Override
    public void idle(long idleNs) {
        wire.idle(idleNs);
    }

    @Override
    public boolean mapsMemory() {
        return wire.mapsMemory();
    }

    @Override
    public void close() {
        wire.close();
    }
}
