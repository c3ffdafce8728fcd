package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider;
import dev.starling.transport.spi.WireProvider.Availability;
import java.time.Duration;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The end of a peer is noticed long before a heartbeat is due, though nothing is sent to it. */
@Timeout(60)
class BrokenLinkTest {
    /** Heartbeats are sent eight times in this time. */
    private static final Duration LIVENESS_TIMEOUT = Duration.ofMinutes(10);
    private static final Duration TIMEOUT = Duration.ofSeconds(15);

    @ParameterizedTest
    @ValueSource(strings = {"aeron", "tcp"})
    void isNoticedWithoutAnAttemptToSend(String name) {
        TransportConfig config = TransportConfig.of(name, Secret.random()).livenessTimeout(LIVENESS_TIMEOUT);
        WireProvider provider = Transport.providers().get(name);
        assumeTrue(provider.availability() instanceof Availability.Ready);
        try (Transport stays = Transport.open(config)) {
            // Closing the wire alone ends the peer as if it were killed: without a goodbye.
            Wire wire = provider.open(config.wire());
            Transport ends = Transport.over(wire, config);
            Endpoint endpoint = stays.connect(ends.address(), new byte[0]);
            stays.await(() -> {
                ends.doWork();
                return endpoint.isConnected();
            }, TIMEOUT, "the connection");
            wire.close();
            stays.await(() -> endpoint.state() == Endpoint.State.LOST, TIMEOUT, "the loss to be noticed");
            assertThat(endpoint.receivedGoodbye()).isFalse();
            assertThat(endpoint.reason()).contains("closed");
        }
    }
}
