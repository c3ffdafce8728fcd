package dev.starling.transport.aeron;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import io.aeron.AeronCounters;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.EpochClock;
import org.agrona.concurrent.SystemEpochClock;
import org.agrona.concurrent.status.CountersReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(60)
class DriverClockTest {
    private static final long LIVENESS_NS = TimeUnit.SECONDS.toNanos(20);
    private static final long LIVENESS_MS = TimeUnit.NANOSECONDS.toMillis(LIVENESS_NS);
    private static final long NEAR_MS = TimeUnit.SECONDS.toMillis(30);

    @TempDir
    private Path directory;

    private Wire open(Path driver) {
        TransportConfig config = TransportConfig.of("aeron", Secret.random()).directory(directory);
        return new AeronWireProvider().open((driver == null ? config : config.option("driver", driver.toString()))
                .wire());
    }

    /** A step of the time of day would show in heartbeats only if they were stamped with it. */
    @Test
    void noHeartbeatDependsOnTheTimeOfDay() {
        try (Wire from = open(null); AeronWire to = (AeronWire) open(null)) {
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            await(() -> heartbeats(to).stream().filter(beat -> beat != 0).count() == 2, from, to);
            assertThat(heartbeats(to)).as("those of the wire and of its peer").hasSize(2).allSatisfy(
                    beat -> assertThat(DriverClock.STEADY.time() - beat).isBetween(0L, NEAR_MS));
            assertThat(DriverClock.STEADY.time() - to.client().context().epochClock().time())
                    .as("the client's clock").isBetween(0L, NEAR_MS);
            assertThat(DriverClock.of(to.client().context().aeronDirectory().toPath(), LIVENESS_MS))
                    .isSameAs(DriverClock.STEADY);
        }
    }

    private static List<Long> heartbeats(AeronWire wire) {
        List<Long> found = new ArrayList<>();
        CountersReader counters = wire.client().countersReader();
        counters.forEach((id, type, key, label) -> {
            if (type == AeronCounters.DRIVER_HEARTBEAT_TYPE_ID) {
                found.add(counters.getCounterValue(id));
            }
        });
        return found;
    }

    @Test
    void adoptsTheTimeOfDayFromADriverThatUsesIt() {
        Path at = directory.resolve("stock");
        MediaDriver.Context stock = AeronDriver.context(at, LIVENESS_NS, LIVENESS_NS)
                .epochClock(SystemEpochClock.INSTANCE).threadingMode(ThreadingMode.SHARED);
        try (MediaDriver driver = MediaDriver.launch(stock); Wire from = open(at);
                AeronWire to = (AeronWire) open(at)) {
            assertThat(DriverClock.of(at, LIVENESS_MS)).isSameAs(SystemEpochClock.INSTANCE);
            Link link = from.open(to.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, from, to);
            assertThat(System.currentTimeMillis() - to.client().context().epochClock().time())
                    .as("the client's clock").isBetween(0L, NEAR_MS);
        }
    }

    /** The driver's clock stands, as if it had died; a heartbeat after the present is from before a restart. */
    @ParameterizedTest
    @CsvSource({"true, 10000, true", "true, 30000, false", "true, -600000, false", "false, 10000, true",
        "false, 30000, false", "false, -600000, true"})
    void findsADriverByTheAgeOfItsHeartbeat(boolean steady, long ageMs, boolean runs) {
        EpochClock clock = steady ? DriverClock.STEADY : SystemEpochClock.INSTANCE;
        long beat = clock.time() - ageMs;
        Path at = directory.resolve("standing");
        try (MediaDriver driver = MediaDriver.launch(AeronDriver.context(at, LIVENESS_NS, LIVENESS_NS)
                .epochClock(() -> beat).threadingMode(ThreadingMode.INVOKER))) {
            assertThat(DriverClock.of(at, LIVENESS_MS)).isSameAs(runs ? clock : null);
        }
        assertThat(DriverClock.of(at, LIVENESS_MS)).as("left").isNull();
    }
}
