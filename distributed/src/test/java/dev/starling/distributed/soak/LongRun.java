package dev.starling.distributed.soak;

import dev.starling.distributed.Group;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;

/** One member's part in training a small network for many steps. */
final class LongRun {
    private static final int BATCHES = 100;
    private static final int BATCH = 16;
    private static final long MAX_EXTENSION_NS = 20_000_000_000L;

    private LongRun() { }

    /** Returns a strategy by its name in the tests. */
    static DistributionStrategy strategy(String name, Group group) {
        return switch (name) {
            case "ring" -> RingAllReduce.over(group).bucketBytes(512).build();
            case "elastic" -> RingAllReduce.over(group).bucketBytes(512).elastic().build();
            case "gossip" -> Gossip.of(group);
            case "ps async" -> servers(group, new Consistency.Asynchronous());
            case "ps stale" -> servers(group, new Consistency.Stale(3));
            case "ps sync" -> servers(group, new Consistency.Synchronous());
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** All members but the last are workers. */
    private static DistributionStrategy servers(Group group, Consistency consistency) {
        return ParameterServer.worker(group, group.rank()).workers(group.world() - 1).consistency(consistency).build();
    }

    /**
     * Returns the resources of the process after a tenth of the steps, near the middle, and after all of them. If
     * allocation has grown at the end, the run continues for as many steps again, up to 20 s: compilers need time and
     * may deoptimise, but real growth remains visible.
     *
     * @param measured runs when the measurement is complete
     * @param enough returns whether the others are done, too; the run continues until then
     */
    static List<ResourceUsage> measure(Group group, String strategy, long steps, Runnable measured,
            BooleanSupplier enough) {
        List<ResourceUsage> all = new ArrayList<>();
        long half = steps * 9 / 20;
        long[] end = {Long.MAX_VALUE};
        long[] allocated = {ResourceUsage.allocatedBytes(), Long.MAX_VALUE};
        train(group, strategy, step -> {
            allocated[1] = Math.min(allocated[1], ResourceUsage.allocatedBytes() - allocated[0]);
            if (all.size() < 3 && step >= steps / 10 && (step - steps / 10) % half == 0) {
                ResourceUsage now = ResourceUsage.of(step, allocated[1]);
                allocated[1] = Long.MAX_VALUE;
                if (all.size() == 2 && end[0] == Long.MAX_VALUE) {
                    end[0] = System.nanoTime() + MAX_EXTENSION_NS;
                }
                if (all.size() < 2 || now.isFlatSince(all.get(1), all.get(0)) || System.nanoTime() > end[0]) {
                    all.add(now);
                    if (all.size() == 3) {
                        measured.run();
                    }
                }
            }
            allocated[0] = ResourceUsage.allocatedBytes();
        }, () -> all.size() == 3 && enough.getAsBoolean());
        return all;
    }

    /**
     * Trains until {@code enough}; returns all parameters, one after the other.
     *
     * @param each receives the number of each step
     * @param enough called after each step; returns whether to stop
     */
    static float[] train(Group group, String strategy, LongConsumer each, BooleanSupplier enough) {
        Generator same = Generator.seeded(1);
        TrainingListener listener = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                each.accept(progress.step());
                if (enough.getAsBoolean()) {
                    progress.stop();
                }
            }
        };
        try (Scope scope = Scope.open("long run");
                Layer model = Sequential.of(Linear.of(8, 16, same), new Relu(), Linear.of(16, 2, same));
                Optimizer sgd = Sgd.over(model).rate(0.01).momentum(0.9).build();
                DistributionStrategy distribution = strategy(strategy, group)) {
            Tensor x = same.normal(BATCHES * BATCH, 8);
            Tensor y = x.sum(1).gt(0).to(DType.I64);
            try (DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(BATCH).workers(0).shuffle()
                    .build()) {
                Trainer.of(model, Loss.crossEntropy(), sgd).data(data).strategy(distribution).epochs(Integer.MAX_VALUE)
                        .listeners(listener).build().run();
            }
            List<Float> weights = new ArrayList<>();
            model.parameters().values().forEach(p -> {
                for (float weight : p.value().toFloats()) {
                    weights.add(weight);
                }
            });
            float[] flat = new float[weights.size()];
            for (int i = 0; i < flat.length; i++) {
                flat[i] = weights.get(i);
            }
            return flat;
        }
    }
}
