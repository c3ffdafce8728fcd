package dev.starling.distributed.hostile;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.network.Program;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Members join over TCP while a stranger at the same address takes as many connections and messages as it gets. */
@Tag("processes")
@Timeout(120)
class JoinUnderAttackTest {
    private static final Duration JOIN = Duration.ofSeconds(5);
    /** As a coordinator's thread sleeps, which polls less often than others. */
    private static final long SLEEP_NS = 2_000_000;

    @TempDir
    Path directory;

    private final AtomicBoolean stops = new AtomicBoolean();
    private TransportConfig config;
    private Transport hub;
    private Thread driver;

    @BeforeEach
    void open() {
        config = RingProgram.transport("tcp", Secret.random().toHex(), 0, directory.toString(), "0");
        hub = Transport.open(config);
        driver = Thread.ofPlatform().name("hub").start(() -> {
            while (!stops.get()) {
                if (hub.doWork() == 0) {
                    LockSupport.parkNanos(SLEEP_NS);
                }
            }
        });
    }

    @AfterEach
    void close() throws InterruptedException {
        stops.set(true);
        driver.join();
        hub.close();
    }

    @Test
    void membersJoinInTime() throws Exception {
        Path recorded = directory.resolve("recorded");
        Recording.write(Recording.of(config, List.of(hub.address())), recorded);
        try (Program stranger = Program.start("stranger", List.of(), Stranger.class,
                List.of("tcp", "1", recorded.toString(), "0"))) {
            stranger.await("ready", 60);
            String port = hub.address().substring(hub.address().lastIndexOf(':') + 1);
            for (TcpAttack.Kind kind : List.of(TcpAttack.Kind.STREAMS, TcpAttack.Kind.HALF_OPEN, TcpAttack.Kind.FLOOD,
                    TcpAttack.Kind.GREETINGS)) {
                stranger.send(kind + " 500 500 " + port);
                stranger.await("enough " + kind, 60);
                for (int i = 0; i < 3; i++) {
                    join(kind);
                }
            }
            stranger.send("END");
            stranger.awaitEnd(60);
            assertThat(stranger.all().lines()).noneMatch(line -> line.startsWith("leak"));
        }
    }

    private void join(TcpAttack.Kind kind) {
        try (Transport newcomer = Transport.open(config)) {
            Endpoint endpoint = newcomer.connect(hub.address(), new byte[0]);
            newcomer.await(endpoint::isConnected, JOIN, "to join during " + kind);
        }
    }
}
