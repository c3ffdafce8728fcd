package dev.starling.distributed.epoch;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class MembershipEpochsTest {
    @Test
    void everyRunBeginsWithTheStateOfRankZero() {
        Cluster.local(2).run(group -> {
            MembershipEpochs epochs = MembershipEpochs.of(group, false, _ -> { }, () -> { });
            for (int run = 0; run < 2; run++) {
                try (Layer model = Linear.of(2, 1, Generator.seeded(2 * run + group.rank()));
                        Layer first = Linear.of(2, 1, Generator.seeded(2 * run));
                        Optimizer sgd = Sgd.over(model).build()) {
                    epochs.start(TrainingState.of(model, sgd));
                    assertThat(elements(model)).isEqualTo(elements(first));
                }
            }
            return null;
        });
    }

    private static List<String> elements(Layer model) {
        return model.state().values().stream().map(p -> Arrays.toString(p.value().toFloats())).toList();
    }
}
