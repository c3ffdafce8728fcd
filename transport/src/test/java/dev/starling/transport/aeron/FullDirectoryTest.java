package dev.starling.transport.aeron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import io.aeron.driver.DefaultReceiveChannelEndpointSupplier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A transport whose directory has room for some links but not for all. */
@Timeout(60)
class FullDirectoryTest {
    /** Number of connections, each of which needs two times 6 MiB. */
    private static final int CONNECTIONS = 4;
    /** Maximum length of a path on Linux. */
    private static final int LONGEST_PATH = 4095;
    private static final long LOAD_NS = 2_000_000_000L;
    private static final UnsafeBuffer MESSAGE = new UnsafeBuffer("still here".getBytes(StandardCharsets.US_ASCII));

    @TempDir
    private Path small;

    @TempDir
    private Path roomy;

    private final List<String> logged = new CopyOnWriteArrayList<>();
    private final Logger log = Logger.getLogger("dev.starling.transport.aeron");
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord entry) {
            logged.add(entry.getMessage());
        }

        @Override
        public void flush() { }

        @Override
        public void close() { }
    };

    private final TransportConfig config = TransportConfig.of("aeron", Secret.random()).sharedMemory(false)
            .livenessTimeout(Duration.ofSeconds(20));

    @BeforeEach
    void addLogHandler() {
        log.addHandler(handler);
    }

    @AfterEach
    void removeLogHandler() {
        log.removeHandler(handler);
    }

    private interface Load {
        /** Begins connections that there is no room for, and waits until the transport notices. */
        void apply(Transport full, Transport peer, List<Endpoint> endpoints);
    }

    /** Checks that one connection survives while others find no room. */
    private void checkOneConnectionSurvives(Load crowd) throws Exception {
        try (SmallDisk disk = SmallDisk.mount(small, "40m");
                Transport full = Transport.open(config.directory(small));
                Transport peer = Transport.open(config.directory(roomy))) {
            List<String> received = new ArrayList<>();
            peer.onMessage((from, buffer, offset, length) -> received.add(buffer.getStringWithoutLengthAscii(offset,
                    length)));
            Endpoint first = full.connect(peer.address(), new byte[0]);
            await(full, peer, first::isConnected);
            crowd.apply(full, peer, new ArrayList<>());
            assertThat(first.send(MESSAGE, 0, MESSAGE.capacity())).isEqualTo(Endpoint.OK);
            await(full, peer, () -> !received.isEmpty());
            assertThat(received).containsExactly("still here");
        }
    }

    /** The path of the driver's directory is as long as the system allows, so that no file fits in it. */
    @Test
    void reportsAFileThatTheDriverCannotCreate() {
        Path directory = roomy.toAbsolutePath();
        while (directory.toString().length() < LONGEST_PATH - 250) {
            directory = directory.resolve("d".repeat(200));
        }
        directory = directory.resolve("d".repeat(LONGEST_PATH - 1 - directory.toString().length()));
        Path deepest = directory;
        assertThatThrownBy(() -> AeronDriver.start(null, deepest, 0, LOAD_NS, LOAD_NS,
                new DefaultReceiveChannelEndpointSupplier())).isInstanceOf(TransportException.class)
                .hasMessageContaining("cannot start a media driver in " + deepest).hasMessageContaining("ulimit -f");
    }

    @Test
    void losesOnlyConnectionsWithoutRoom() throws Exception {
        checkOneConnectionSurvives((full, peer, endpoints) -> {
            for (int i = 0; i < CONNECTIONS; i++) {
                endpoints.add(full.connect(peer.address(), new byte[0]));
            }
            await(full, peer, () -> endpoints.stream().anyMatch(e -> e.state() == Endpoint.State.LOST));
            assertThat(endpoints).filteredOn(e -> e.state() == Endpoint.State.LOST).allSatisfy(e ->
                    assertThat(e.reason()).contains(small + "/", " is full", "the link to " + peer.address()
                            + " has no room", "--shm-size"));
        });
    }

    @Test
    void refusesConnectionsWithoutRoomAndContinues() throws Exception {
        checkOneConnectionSurvives((full, peer, endpoints) -> {
            for (int i = 0; i < CONNECTIONS; i++) {
                endpoints.add(peer.connect(full.address(), new byte[0]));
            }
            long begin = System.nanoTime();
            await(full, peer, () -> System.nanoTime() - begin > LOAD_NS);
            assertThat(endpoints).filteredOn(e -> e.state() == Endpoint.State.CONNECTING).isNotEmpty().allSatisfy(
                    e -> assertThat(e.reason()).contains(full.address(), "its own log"));
            assertThat(endpoints).anySatisfy(e -> assertThat(e.reason()).contains("over UDP", "has no room"));
        });
        assertThat(logged).anySatisfy(entry -> assertThat(entry).contains(small + "/", " is full", "from a peer",
                "--shm-size"));
    }

    private static void await(Transport a, Transport b, BooleanSupplier condition) {
        a.await(() -> {
            b.doWork();
            return condition.getAsBoolean();
        }, Duration.ofSeconds(30), "what the test waits for");
    }
}
