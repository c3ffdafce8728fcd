package dev.starling.spark.search;

import dev.starling.errors.StarlingException;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.spark.Choices;
import dev.starling.spark.PackedRows;
import dev.starling.spark.Recipe;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Threads;
import java.io.Serializable;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.broadcast.Broadcast;

/**
 * Trains one model in one task, alone.
 *
 * @param rows all rows, packed; every part has the same order in each trial
 * @param training how many of them, the first, are trained on; the others are held out
 */
record TrialTask(Broadcast<PackedRows> rows, int training, String factory, Map<String, String> fixed, Recipe<Loss> loss,
        Recipe<Metric> metric, long seed, int epochs)
        implements Function<Map.Entry<Integer, Map<String, String>>, Trial>, Serializable {
    private static final long serialVersionUID = 1L;

    /** Rows {@code from} to {@code to} of all. */
    private record Part(PackedRows rows, int from, int to) implements Dataset {
        @Override
        public int size() {
            return to - from;
        }

        @Override
        public List<Field> fields() {
            return rows.fields();
        }

        @Override
        public void write(int index, Example target) {
            MemorySegment packed = MemorySegment.ofArray(rows.bytes());
            long at = (from + index) * rows.rowBytes();
            for (int i = 0; i < fields().size(); i++) {
                long bytes = fields().get(i).bytes();
                MemorySegment.copy(packed, at, target.segment(i), target.offset(i), bytes);
                at += bytes;
            }
        }
    }

    @Override
    public Trial call(Map.Entry<Integer, Map<String, String>> tried) {
        TaskContext context = TaskContext.get();
        long begin = System.nanoTime();
        double[] scores = {Double.POSITIVE_INFINITY, Double.NaN};
        String problem = null;
        try {
            Threads.with(context.cpus(), () -> {
                train(tried.getValue(), scores, context);
                return null;
            });
        } catch (StarlingException | IllegalArgumentException e) {
            problem = e.getMessage();
        }
        return new Trial(tried.getKey(), tried.getValue(), epochs, scores[0], scores[1],
                (System.nanoTime() - begin) / 1e9, problem);
    }

    private void train(Map<String, String> tried, double[] scores, TaskContext context) {
        Map<String, String> all = new LinkedHashMap<>(fixed);
        all.putAll(tried);
        double rate = number(all, SparkSearch.RATE, 1e-3);
        int batch = (int) number(all, SparkSearch.BATCH, 32);
        String optimizer = all.getOrDefault(SparkSearch.OPTIMIZER, "adam");
        List.of(SparkSearch.RATE, SparkSearch.BATCH, SparkSearch.OPTIMIZER).forEach(all::remove);
        PackedRows packed = rows.value();
        long steps = Math.max(2, (long) epochs * ((training + batch - 1) / batch));
        Metric[] metrics = metric == null ? new Metric[0] : new Metric[] {metric.make()};
        try (Layer model = new ModelDescription(factory, all).build(Thread.currentThread().getContextClassLoader(),
                Generator.seeded(seed));
                DataLoader train = DataLoader.of(new Part(packed, 0, training)).batchSize(batch).workers(0).shuffle()
                        .seed(seed).build();
                DataLoader heldOut = DataLoader.of(new Part(packed, training, packed.size())).batchSize(256).workers(0)
                        .build();
                Optimizer steering = Choices.optimizer(optimizer, rate).over(model, steps)) {
            Trainer.of(model, loss.make(), steering).data(train).epochs(epochs).seed(seed)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            context.killTaskIfInterrupted();
                        }
                    }).build().run();
            Scores measured = Scores.evaluate(model, loss.make(), heldOut, metrics);
            scores[0] = measured.loss();
            scores[1] = metrics.length == 0 ? Double.NaN : measured.metric(metrics[0].name());
        }
    }

    private static double number(Map<String, String> settings, String name, double otherwise) {
        String text = settings.get(name);
        try {
            return text == null ? otherwise : Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " must be a number, got " + text, e);
        }
    }
}
