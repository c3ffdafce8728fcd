package dev.starling.transport.ucx;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider.Availability;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpEndpointParams;
import org.openucx.jucx.ucp.UcpMemMapParams;
import org.openucx.jucx.ucp.UcpMemory;
import org.openucx.jucx.ucp.UcpParams;
import org.openucx.jucx.ucp.UcpRemoteKey;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucp.UcpWorker;
import org.openucx.jucx.ucp.UcpWorkerParams;

/** What a process with UCX, but without the secret, can do to one that it can connect to. */
@Timeout(60)
class UcxStrangerTest {
    private static final byte MARK = 0x5A;

    @BeforeEach
    void findLibrary() {
        assumeTrue(new UcxWireProvider().availability() instanceof Availability.Ready,
                "UCX (libucp.so.0) is not installed here");
    }

    private static Wire open(String tls) {
        TransportConfig config = TransportConfig.of("ucx", Secret.random());
        return new UcxWireProvider().open((tls.equals("all") ? config : config.option("tls", tls)).wire());
    }

    /** A stranger asks UCX, below all handshakes, to copy memory of the process that it knows only by address. */
    @ParameterizedTest
    @CsvSource({"tcp,64", "tcp,100000", "all,64", "all,100000"})
    void neitherReadsNorWritesMemoryOfAnotherProcess(String tls, int bytes) throws Exception {
        boolean[] failed = {false};
        try (Wire wire = open(tls); Wire honest = open(tls); Arena arena = Arena.ofShared();
                UcpContext context = new UcpContext(new UcpParams().requestAmFeature().requestRmaFeature()
                        .setConfig("LOG_LEVEL", "fatal").setConfig("TLS", tls)
                        .setConfig("TX_SEG_SIZE", "520k").setConfig("RX_SEG_SIZE", "520k")
                        .setConfig("CM_USE_ALL_DEVICES", tls.equals("tcp") ? "n" : "y"));
                UcpWorker worker = context.newWorker(new UcpWorkerParams())) {
            Link link = honest.open(wire.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, honest, wire);
            MemorySegment victim = arena.allocate(bytes, 4096).fill(MARK);
            MemorySegment read = arena.allocate(bytes, 4096);
            MemorySegment forged = arena.allocate(bytes, 4096);
            UcpEndpoint stranger = worker.newEndpoint(new UcpEndpointParams().setPeerErrorHandlingMode()
                    .setSocketAddress(HostPort.parse(wire.address()))
                    .setErrorHandler((_, _, _) -> failed[0] = true));
            UcpRequest connecting = stranger.flushNonBlocking(null);
            await(() -> progress(worker) >= 0 && (failed[0] || connecting.isCompleted()), wire, honest);
            UcpMemory own = context.memoryMap(new UcpMemMapParams().setAddress(read.address()).setLength(bytes));
            UcpRemoteKey key = stranger.unpackRemoteKey(padded(own.getRemoteKeyBuffer()));
            try {
                UcpRequest get = stranger.getNonBlocking(victim.address(), key, read.address(), bytes, null,
                        UcxWire.HOST_MEMORY);
                UcpRequest put = stranger.putNonBlocking(forged.address(), bytes, victim.address(), key, null,
                        UcxWire.HOST_MEMORY);
                // What the stranger sends last arrives last.
                UnsafeBuffer message = new UnsafeBuffer(arena.allocate(1000, 8).address(), 1000);
                Envelope.write(message, 0, 4711, 0);
                UcpRequest sent = UcxWire.send(stranger, UcxWire.MESSAGE, 0, 0, message.addressOffset(), 1000, true);
                boolean[] received = {false};
                await(() -> {
                    progress(worker);
                    wire.poll((_, _, length) -> received[0] |= length == 1000 - Envelope.LENGTH, 4);
                    return failed[0] || received[0] && sent.isCompleted() || get.isCompleted() && put.isCompleted();
                }, honest);
                for (int i = 0; i < 1000; i++) {
                    progress(worker);
                    wire.poll((_, _, _) -> { }, 4);
                }
            } finally {
                // UCX ends the JVM if something is left open.
                key.close();
                own.close();
                stranger.closeNonBlockingForce();
                progress(worker);
            }
            assertThat(read.mismatch(arena.allocate(bytes))).as("first byte that was read").isEqualTo(-1);
            assertThat(victim.mismatch(arena.allocate(bytes).fill(MARK))).as("first byte that was written")
                    .isEqualTo(-1);
            await(() -> offer(link, new byte[4]) == Wire.SENT, honest, wire);
        }
    }

    private static int progress(UcpWorker worker) {
        try {
            return worker.progress();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** UCX reads a packed key without knowing its length. */
    private static ByteBuffer padded(ByteBuffer key) {
        return ByteBuffer.allocateDirect(1024).put(key).clear();
    }

    @ParameterizedTest
    @ValueSource(strings = {"all", "tcp"})
    void findsNoPortOfAProcessThatListensOnLoopbackOnly(String tls) throws IOException {
        assumeTrue(NetworkInterface.networkInterfaces().flatMap(NetworkInterface::inetAddresses)
                .anyMatch(address -> !address.isLoopbackAddress()), "this machine has only loopback addresses");
        Set<String> before = listening();
        try (Wire from = open(tls); Wire to = open(tls)) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            Set<String> opened = listening();
            opened.removeAll(before);
            assertThat(opened).hasSizeGreaterThanOrEqualTo(2).allSatisfy(address -> assertThat(
                    InetAddress.getByName(address.substring(0, address.lastIndexOf(':'))).isLoopbackAddress())
                    .as(address).isTrue());
        }
    }

    /** Returns the addresses at which this process listens for TCP connections over IPv4. */
    private static Set<String> listening() throws IOException {
        List<String> inodes = new ArrayList<>();
        try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
            for (Path each : descriptors.toList()) {
                if (Files.isSymbolicLink(each)) {
                    inodes.add(Files.readSymbolicLink(each).toString());
                }
            }
        }
        Set<String> addresses = new TreeSet<>();
        for (String line : Files.readAllLines(Path.of("/proc/self/net/tcp"))) {
            String[] words = line.strip().split("\\s+");
            if (words[3].equals("0A") && inodes.contains("socket:[" + words[9] + "]")) {
                int host = Integer.reverseBytes(Integer.parseUnsignedInt(words[1].substring(0, 8), 16));
                addresses.add((host >>> 24) + "." + (host >> 16 & 255) + "." + (host >> 8 & 255) + "." + (host & 255)
                        + ":" + Integer.parseInt(words[1].substring(9), 16));
            }
        }
        return addresses;
    }
}
