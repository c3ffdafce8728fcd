package dev.starling.transport.ucx;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider.Availability;
import dev.starling.transport.spi.Wires;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpRequest;

@Timeout(60)
class UcxWireTest {
    @BeforeEach
    void findLibrary() {
        assumeTrue(new UcxWireProvider().availability() instanceof Availability.Ready,
                "UCX (libucp.so.0) is not installed here");
    }

    private static TransportConfig config() {
        return TransportConfig.of("ucx", Secret.ofText("sixteen bytes or more"));
    }

    private static TransportConfig config(String tls) {
        return config().option("tls", tls);
    }

    private static Wire open(TransportConfig config) {
        return new UcxWireProvider().open(config.wire());
    }

    private static TransportException failure(TransportConfig config) {
        return catchThrowableOfType(TransportException.class, () -> open(config).close());
    }

    @Test
    void sleepsUntilAMessageArrives() {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link there = from.open(to.address());
            await(() -> offer(there, new byte[4]) == Wire.SENT, from, to);
            long late = TimeUnit.SECONDS.toNanos(1);
            for (int round = 0; round < 3; round++) {
                int[] received = {0};
                int waits = 0;
                long begin = System.nanoTime();
                while (System.nanoTime() - begin < 100_000_000) {
                    if (to.poll((buffer, offset, length) -> received[0]++, 1) == 0) {
                        to.idle(late);
                        waits++;
                    }
                }
                // Half a millisecond each, and some spurious wake-ups.
                assertThat(waits).isLessThan(250);
                assertThat(System.nanoTime() - begin).isLessThan(late);
                await(() -> offer(there, new byte[4]) == Wire.SENT, from);
                await(() -> {
                    to.idle(late);
                    to.poll((buffer, offset, length) -> received[0]++, 1);
                    return received[0] > 0;
                }, from);
            }
        }
    }

    @Test
    void letsTheInboxAnswerAndThrow() {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link there = from.open(to.address());
            Link back = to.open(from.address());
            await(() -> offer(there, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(back, new byte[4]) == Wire.SENT, from, to);
            await(() -> offer(there, new byte[5]) == Wire.SENT, from);
            boolean[] answered = {false};
            assertThatThrownBy(() -> await(() -> {
                to.poll((buffer, offset, length) -> {
                    assertThat(offer(back, new byte[6])).isEqualTo(Wire.SENT);
                    throw new IllegalStateException("thrown by the inbox");
                }, 1);
                return false;
            }, from)).isInstanceOf(IllegalStateException.class).hasMessage("thrown by the inbox");
            await(() -> {
                from.poll((buffer, offset, length) -> answered[0] |= length == 14, 1);
                return answered[0];
            }, to);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "sm,self"})
    void closesInTimeWhileAPeerIsStopped(String tls) throws Exception {
        Process peer = UcxPeer.start("tls=" + tls);
        try {
            Wire wire = open(config(tls));
            Link link = wire.open(peer.inputReader().readLine());
            UcxWritesTest.meet(wire, link);
            assertThat(new ProcessBuilder("kill", "-STOP", Long.toString(peer.pid())).start().waitFor()).isZero();
            for (int i = 0; i < 10_000 && offer(link, new byte[10_000]) == Wire.SENT; i++) {
                Wires.drive(wire);
            }
            long begin = System.nanoTime();
            wire.close();
            assertThat(System.nanoTime() - begin).isLessThan(TimeUnit.SECONDS.toNanos(5));
        } finally {
            peer.destroyForcibly().waitFor();
        }
    }

    @Test
    void ignoresConnectionsThatAreNotUcx() throws IOException {
        try (Wire from = open(config("tcp")); Wire to = open(config("tcp"))) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            int port = Integer.parseInt(to.address().substring(to.address().indexOf(':') + 1));
            for (int seed = 0; seed < 20; seed++) {
                try (Socket stranger = new Socket(InetAddress.getLoopbackAddress(), port)) {
                    byte[] noise = new byte[1 + 97 * seed];
                    new Random(seed).nextBytes(noise);
                    OutputStream out = stranger.getOutputStream();
                    out.write(noise);
                    out.flush();
                    await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
                } catch (SocketException e) {
                    assertThat(e).as("connection rejected").hasMessageMatching(".*(reset|Broken pipe|closed).*");
                }
            }
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
        }
    }

    @Test
    void closesTheEndpointOfAStrangerThatInventsLinks() {
        try (UcxWire from = (UcxWire) open(config("tcp")); Wire to = open(config("tcp"));
                Arena arena = Arena.ofConfined()) {
            Link lasting = from.open(to.address());
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
            boolean[] ended = {false};
            UcpEndpoint stranger = from.connect(HostPort.parse(to.address()), () -> ended[0] = true);
            UcpRequest connecting = stranger.flushNonBlocking(null);
            await(connecting::isCompleted, from, to);
            UnsafeBuffer message = new UnsafeBuffer(arena.allocate(1000, 8).address(), 1000);
            int[] received = {0};
            for (int link = 0; link < 2; link++) {
                assertThat(ended[0]).isFalse();
                Envelope.write(message, 0, 1000 + link, 0);
                UcpRequest sent = UcxWire.send(stranger, UcxWire.MESSAGE, 0, 0, message.addressOffset(), 1000, true);
                boolean last = link == 1;
                await(() -> {
                    to.poll((buffer, offset, length) -> received[0] += length == 1000 - Envelope.LENGTH ? 1 : 0, 4);
                    return sent.isCompleted() && (last ? ended[0] : received[0] > 0);
                }, from);
            }
            assertThat(received[0]).as("messages of the first link only").isEqualTo(1);
            from.drop(stranger);
            await(() -> offer(lasting, new byte[4]) == Wire.SENT, from, to);
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "tls | t c p | 't c p' is not a value of the option 'tls'",
        "tls | tcp,infiniband | 'tcp,infiniband' is not a value of the option 'tls'",
        "devices | : | is not a value of the option 'devices'",
        "devices | none0 | there is no network device 'none0' here",
        "UCX_TCP_RX_SEG_SIZE | large | 'large' is not a value of the option 'UCX_TCP_RX_SEG_SIZE'",
        "UCX_TCP_RX_SEG_SIZE | 4k | UCX cannot be set up with",
        "UCX_TCP_SEGMENT | 4k | no option 'UCX_TCP_SEGMENT'; its options are [UCX_"})
    void namesAWrongOption(String option, String value, String message) {
        TransportException e = failure(config().option(option, value));
        assertThat(e).hasMessageContaining(message);
        assertThat(e.problem()).isIn(Problem.ARGUMENT, Problem.UNAVAILABLE);
    }

    @Test
    void leavesNoThreadAndNoFile() throws IOException {
        Set<String> files = shared();
        for (int i = 0; i < 3; i++) {
            try (Wire from = open(config()); Wire to = open(config())) {
                Link link = from.open(to.address());
                await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            }
        }
        for (long end = System.nanoTime() + 10_000_000_000L; threads("async") > 0 && System.nanoTime() < end;) {
            Thread.onSpinWait();
        }
        assertThat(threads("async")).as("threads of UCX").isZero();
        assertThat(shared()).isEqualTo(files);
    }

    private static Set<String> shared() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/dev/shm"))) {
            return all.map(Path::toString).filter(name -> name.contains("ucx"))
                    .collect(Collectors.toCollection(TreeSet::new));
        }
    }

    private static long threads(String name) throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/task"))) {
            return all.filter(task -> {
                try {
                    return Files.readString(task.resolve("comm")).strip().equals(name);
                } catch (IOException e) {
                    return false; // The process has ended.
                }
            }).count();
        }
    }

    @Test
    void ignoresAnotherWireOfThisProcess() {
        try (Wire from = open(config()); Wire to = open(config()); Wire other = open(config())) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> {
                other.poll((buffer, offset, length) -> {
                    throw new AssertionError("not meant for this one");
                }, 4);
                int[] received = {0};
                to.poll((buffer, offset, length) -> received[0]++, 4);
                return received[0] == 1 || offer(link, new byte[4]) == Wire.CLOSED;
            }, from);
        }
    }
}
