package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The model after workers that do not wait for each other have taken their last steps. */
@Timeout(120)
class ConclusionTest {
    private static final int EXAMPLES = 60;
    private static final int STEPS = EXAMPLES / 10 / 3 * 10;

    /** A worker that starts late begins where the others are, and might find nothing left to do. */
    private final CountDownLatch begun = new CountDownLatch(3);

    private static Cluster cluster(boolean shared) {
        return new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(10))
                .sharedMemory(shared), 3, Coordinator.OnLoss.REFORM);
    }

    /** Each worker trains on another constant, and receives no update before the end; returns its final weight. */
    private float constant(Group group, TrainingListener listener) {
        // Nothing is published between steps.
        return constant(group, Gossip.of(group, Integer.MAX_VALUE), listener);
    }

    private float constant(Group group, Gossip strategy, TrainingListener listener) {
        try (Scope scope = Scope.open("test"); Gossip gossip = strategy;
                Layer model = Linear.of(1, 1, Generator.seeded(1));
                Optimizer optimizer = Sgd.over(model).rate(0.5).build();
                DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.zeros(EXAMPLES, 1),
                        Tensor.full(DType.F32, 3 * (1 << group.rank()), EXAMPLES, 1))).batchSize(10).workers(0)
                        .build()) {
            Trainer.of(model, Loss.meanSquared(), optimizer).data(loader).epochs(10).strategy(gossip)
                    .listeners(together(gossip), listener).build().run();
            assertThat(gossip.mixed()).isZero();
            return (float) model.parameters().get("bias").value().item();
        }
    }

    private TrainingListener together(Gossip gossip) {
        return new TrainingListener() {
            @Override
            public void started(Progress progress) {
                begun.countDown();
            }

            @Override
            public void stepEnded(Progress progress) {
                while (begun.getCount() > 0) {
                    // Sends initial weights to other workers.
                    gossip.afterStep();
                }
            }
        };
    }

    private static TrainingListener before(long step, Runnable action) {
        return new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == step) {
                    action.run();
                }
            }
        };
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void endsWithTheMeanOfAllEvenIfOneIsSlow(boolean shared) {
        List<Float> ends = cluster(shared).run(group -> constant(group, before(STEPS - 1, () -> {
            if (group.rank() == 1) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(300));
            }
        })));
        assertThat(ends).allSatisfy(end -> assertThat(end).isCloseTo((3 + 6 + 12) / 3f, within()));
    }

    @Test
    void weightsWorkersOnDataOfTheirOwnByItsSize() {
        long[] examples = {1, 2, 7};
        List<Float> ends = cluster(true).run(group -> constant(group, Gossip.onOwnData(group, Integer.MAX_VALUE,
                examples[group.rank()]), new TrainingListener() { }));
        assertThat(ends).allSatisfy(end -> assertThat(end).isCloseTo((3 + 2 * 6 + 7 * 12) / 10f, within()));
    }

    private static Offset<Float> within() {
        return Offset.offset(1e-4f);
    }

    @Test
    void endsWithoutAWorkerThatIsTooSlow() {
        CountDownLatch ended = new CountDownLatch(2);
        List<Float> ends = cluster(true).timeout(Duration.ofSeconds(2)).run(group -> {
            float end = constant(group, before(STEPS - 1, () -> {
                if (group.rank() == 2) {
                    await(ended);
                }
            }));
            ended.countDown();
            return end;
        });
        assertThat(ends.subList(0, 2)).allSatisfy(end -> assertThat(end).isCloseTo((3 + 6) / 2f, within()));
        assertThat(ends.get(2)).isCloseTo(12f, within());
    }

    @Test
    void endsWithoutALostWorker() {
        List<Float> ends = cluster(true).run(group -> {
            // The remaining workers get new ranks.
            int rank = group.rank();
            try {
                return constant(group, before(STEPS - 1, () -> {
                    if (rank == 1) {
                        group.locked(() -> group.transport().close());
                        throw new CancellationException("killed by the test");
                    }
                }));
            } catch (CancellationException e) {
                return null;
            }
        });
        assertThat(List.of(ends.get(0), ends.get(2))).allSatisfy(end ->
                assertThat(end).isCloseTo((3 + 12) / 2f, within()));
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
