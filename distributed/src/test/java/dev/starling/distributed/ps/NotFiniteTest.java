package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.server.ServerDriver;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Gradients that are infinite or NaN do not reach the weights of servers. */
@Timeout(60)
class NotFiniteTest {
    @Test
    void serversRefuseGradientsThatAreNotFinite(@TempDir Path directory) throws InterruptedException {
        try (ServerDriver server = new ServerDriver(ServerDriver.config(directory), ServerDriver.plan(1,
                new Consistency.Asynchronous(),
                ServerDriver.PLAIN, 3))) {
            server.join(0, 7, 0, 1, 2, 3);
            for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
                assertThat(server.push(0, 7, 0, 0, 1, 0, bad, 0).status()).isEqualTo(Message.NOT_FINITE);
            }
            assertThat(server.pull(0)).containsExactly(1, 2, 3);
            assertThat(server.push(0, 7, 0, 0, 1, 1, -Float.MAX_VALUE, 1).status()).isEqualTo(Message.DONE);
            assertThat(server.pull(0)[0]).isZero();
        }
    }

    @Test
    void workersRefuseGradientsThatAreNotFiniteAndNameTheParameter() {
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                try {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                } catch (RuntimeException e) {
                    // The worker has left without a goodbye.
                    assertThat(e).hasMessageContaining("rank 0");
                }
                return null;
            }
            try (Scope scope = Scope.open("test");
                    Linear line = Linear.of(2, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(line).build();
                    ParameterServer servers = ParameterServer.worker(group, 0)
                            .workers(1).build();
                    TrainingStep step = new TrainingStep(line, (y, t) -> y.add(y.mul(0).abs().mul(t).sqrt()).mean(),
                            sgd, Generator.seeded(1), servers)) {
                servers.start(TrainingState.of(line, sgd));
                Tensor x = Tensor.ones(3, 2);
                assertThatThrownBy(() -> step.run(x, Tensor.ones(3, 1))).isInstanceOf(TensorException.class)
                        .hasMessageContaining("weight").hasMessageContaining("worker 0");
                servers.finish();
            }
            return null;
        });
    }
}
