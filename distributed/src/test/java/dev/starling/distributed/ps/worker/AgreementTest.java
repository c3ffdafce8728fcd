package dev.starling.distributed.ps.worker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class AgreementTest {
    /** Otherwise the group's thread would still read and write the memory of the votes, which is released. */
    @Test
    void closingEndsTheVotesInFlight() {
        Plan plan = new Plan(1, 2, 64, new Consistency.Synchronous(), List.of(), List.of());
        CountDownLatch closed = new CountDownLatch(1);
        Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                assertThat(closed.await(20, TimeUnit.SECONDS)).isTrue();
                return null;
            }
            try (Layer model = Linear.of(2, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(model).build()) {
                TrainingState state = TrainingState.of(model, sgd);
                Client client = new Client(group, group.rank(), plan, state.settings(), true, new SecureRandom());
                client.open();
                Agreement agreement = new Agreement(client, group.rank(), false, false, state);
                if (group.rank() == 0) {
                    // Worker 1 does not vote.
                    agreement.stops(false);
                    agreement.close();
                    assertThatThrownBy(() -> client.peers().collectives().barrier())
                            .isInstanceOf(DistributedException.class).hasMessageContaining("has stopped");
                    closed.countDown();
                } else {
                    assertThat(closed.await(20, TimeUnit.SECONDS)).isTrue();
                    agreement.close();
                }
                client.close();
            }
            return null;
        });
    }
}
