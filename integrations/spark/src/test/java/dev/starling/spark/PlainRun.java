package dev.starling.spark;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** The ring run of {@link SparkTrainerTest#trainer} without Spark: one rank for each partition of a DataFrame. */
final class PlainRun {
    private static final int CLASS = 1;

    private PlainRun() {
    }

    /** Returns the weights of rank 0 by path; rows are of a pair of numbers and a class. */
    static Map<String, float[]> of(Dataset<Row> rows, int epochs, int batchSize, long seed) throws Exception {
        List<List<Row>> partitions = rows.toJavaRDD().glom().collect();
        TransportConfig transport = TransportConfig.of("aeron", Secret.random());
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(transport, partitions.size(),
                        Coordinator.OnLoss.END, 1, Duration.ofMinutes(1)));
                ExecutorService threads = Executors.newFixedThreadPool(partitions.size())) {
            List<Callable<Map<String, float[]>>> ranks = IntStream.range(0, partitions.size()).mapToObj(rank ->
                    (Callable<Map<String, float[]>>) () -> rank(GroupConfig.of(transport, coordinator.address())
                            .preferredRank(rank), partitions.get(rank), epochs, batchSize, seed)).toList();
            List<Future<Map<String, float[]>>> results = threads.invokeAll(ranks);
            for (Future<Map<String, float[]>> result : results) {
                result.get();
            }
            return results.getFirst().get();
        }
    }

    private static Map<String, float[]> rank(GroupConfig config, List<Row> rows, int epochs, int batchSize,
            long seed) {
        float[] numbers = new float[2 * rows.size()];
        long[] classes = new long[rows.size()];
        for (int i = 0; i < classes.length; i++) {
            List<Float> pair = rows.get(i).getList(0);
            numbers[2 * i] = pair.get(0);
            numbers[2 * i + 1] = pair.get(1);
            classes[i] = rows.get(i).getInt(CLASS);
        }
        try (Scope scope = Scope.open("rank");
                Group group = Group.join(config);
                RingAllReduce ring = RingAllReduce.over(group).ownData().build();
                Layer model = Networks.mlp(Generator.seeded(seed), 2, 16, 2);
                DataLoader data = DataLoader.of(TensorDataset.of(Tensor.of(numbers, classes.length, 2),
                                Tensor.of(classes, classes.length))).batchSize(batchSize).workers(0).seed(seed)
                        .shuffle().build();
                Optimizer optimizer = Adam.over(model).rate(0.02).build()) {
            Trainer.of(model, Loss.crossEntropy(), optimizer).data(data).epochs(epochs).seed(seed).strategy(ring)
                    .build().run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            model.state().forEach((name, p) -> weights.put(name, p.value().toFloats()));
            return weights;
        }
    }
}
