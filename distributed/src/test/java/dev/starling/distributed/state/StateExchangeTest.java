package dev.starling.distributed.state;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class StateExchangeTest {
    private static final int PARAMETERS = 7000;
    private static final long STEPS = 10_000;

    private record Scalars(List<Parameter> all) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            for (int i = 0; i < all.size(); i++) {
                visitor.parameter("p" + i, all.get(i));
            }
        }
    }

    /** Notes of a model with many frozen tensors are longer than a rank can pass in one exchange. */
    @Test
    void ranksAdoptAStateWithLongNotes() {
        long[] missed = new long[PARAMETERS];
        Arrays.fill(missed, STEPS);
        missed[PARAMETERS - 1] = 1;
        List<Integer> sources = Cluster.local(3).run(group -> {
            boolean fresh = group.rank() != 1;
            try (Scope scope = Scope.open("rank");
                    Layer model = new Scalars(Stream.generate(() -> Parameter.of(Tensor.zeros(1))).limit(PARAMETERS)
                            .toList());
                    Optimizer optimizer = Adam.over(model).rate(0.1).build()) {
                TrainingState state = TrainingState.of(model, optimizer);
                if (!fresh) {
                    optimizer.resume(STEPS + 1, missed);
                    assertThat(StateSummary.CODEC.encode(StateSummary.of(state, false, 1)))
                            .hasSizeGreaterThan(40 << 10);
                }
                int source = StateExchange.synchronize(group.collectives(), group.rank(), state, fresh, 1);
                assertThat(optimizer.missed()).isEqualTo(missed);
                assertThat(optimizer.steps()).isEqualTo(STEPS + 1);
                return source;
            }
        });
        assertThat(sources).containsExactly(1, 1, 1);
    }
}
