package dev.starling.distributed.ps.worker;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import java.security.SecureRandom;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ClientTest {
    /** The server never answers; the client would wait until the time-out. */
    @Test
    void aFailedStepEndsTheRunIfRequestsAreOpen() {
        Plan plan = new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(), List.of());
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                group.collectives().barrier().await(group.config().timeout());
                return null;
            }
            try (Layer model = Linear.of(2, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(model).build()) {
                SecureRandom random = new SecureRandom();
                Client client = new Client(group, 0, plan, TrainingState.of(model, sgd).settings(), false, random);
                client.open();
                client.abandonStep(false);
                BlockRequest push = new BlockRequest(client.servers[0], 0, new Plan.Block(0, 0, 4),
                        new UnsafeBuffer(new byte[16]), random);
                client.ask(List.of(push), Message.PUSH);
                client.abandonStep(false);
                assertThatThrownBy(() -> client.await("for nothing")).isInstanceOf(DistributedException.class)
                        .hasMessageContaining("resume from a checkpoint");
                client.close();
            }
            group.collectives().barrier().await(group.config().timeout());
            return null;
        });
    }
}
