package dev.starling.jmh.serving;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.jmh.Model;
import dev.starling.jmh.StarlingModel;
import dev.starling.jmh.serving.Load.Observed;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;

class LoadTest {
    @Test
    void observesLatencyAndThroughputOfAllClients() {
        AtomicInteger clients = new AtomicInteger();
        Server server = new Server() {
            @Override
            public UnaryOperator<float[]> client() {
                clients.incrementAndGet();
                return example -> {
                    long end = System.nanoTime() + 2_000_000;
                    while (System.nanoTime() < end) {
                        LockSupport.parkNanos(100_000);
                    }
                    return example;
                };
            }

            @Override
            public void close() {
            }
        };
        Observed observed = Load.run(server, Model.MLP, 3, 100);
        assertThat(clients).hasValue(3);
        assertThat(observed.p50()).isBetween(2000.0, observed.p99());
        assertThat(observed.perSecond()).isBetween(1.0, 3 * 1000 / 2.0);
        assertThat(Observed.parse(observed.toString())).isEqualTo(observed);
    }

    @Test
    void servesTheModelThatPeersServe() {
        float[] example = Load.example(Model.MLP, 3);
        try (Server server = Contender.STARLING.start(Model.MLP);
                StarlingModel model = new StarlingModel(Model.MLP); Scope scope = Scope.open("test")) {
            assertThat(server.client().apply(example)).containsExactly(
                    model.network().forward(Tensor.of(example, Model.MLP.batchShape(1))).toFloats(), within(1e-4f));
        }
    }
}
