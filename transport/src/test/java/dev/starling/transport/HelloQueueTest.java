package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class HelloQueueTest {
    private static final int PEERS = 300;
    private static final Duration SOON = Duration.ofSeconds(5);
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.random());

    /** Returns the HELLO of a process. */
    private static Authentication.Hello hello(int process) {
        return new Authentication.Hello(new byte[32], process, null, "process" + process, true);
    }

    @Test
    void answersManyProcessesAtATimeInOrder() {
        List<Long> connectedNs = new ArrayList<>();
        try (Simulation simulation = Simulation.of(1)) {
            simulation.start("hub", () -> {
                try (Transport hub = Transport.over(simulation.wire("hub"), CONFIG)) {
                    hub.await(() -> connectedNs.size() == PEERS, SOON, "the peers");
                    assertThat(hub.counters().refusedStrangers()).isZero();
                }
            });
            for (int i = 0; i < PEERS; i++) {
                String name = "peer" + i;
                simulation.start(name, () -> {
                    try (Transport peer = Transport.over(simulation.wire(name), CONFIG)) {
                        Endpoint endpoint = peer.connect("hub", new byte[0]);
                        peer.await(endpoint::isConnected, SOON, "the hub");
                        connectedNs.add(simulation.nanoTime());
                        peer.await(() -> connectedNs.size() == PEERS, SOON, "the other peers");
                    }
                });
            }
            simulation.run(SOON);
        }
        // Processes that are refused try again after 100 ms.
        assertThat(Duration.ofNanos(connectedNs.getLast())).isLessThan(Duration.ofMillis(50));
    }

    @Test
    void isBoundedAndForgetsProcessesThatNoLongerWait() {
        HelloQueue queue = new HelloQueue();
        for (int i = 0; i < HelloQueue.MAX; i++) {
            assertThat(queue.add(hello(i), 0)).isTrue();
        }
        assertThat(queue.add(hello(HelloQueue.MAX), 0)).isFalse();
        long later = Duration.ofSeconds(2).toNanos();
        assertThat(queue.add(hello(7), later)).isTrue();
        assertThat(queue.next(later).address()).isEqualTo("process7");
        assertThat(queue.isEmpty()).isFalse();
        assertThat(queue.next(later)).isNull();
        assertThat(queue.isEmpty()).isTrue();
    }
}
