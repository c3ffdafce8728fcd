package dev.starling.jmh.cluster;

import dev.starling.jmh.Inputs;
import dev.starling.jmh.Model;
import dev.starling.jmh.StarlingModel;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.StringJoiner;

/**
 * When the gradients of a training step become final.
 *
 * @param order their indices in the optimiser's list, in the order in which they become final
 * @param nanos nanoseconds of computation before each, since the previous one or the start of the forward pass
 */
record Timeline(int[] order, long[] nanos) {
    private static final int WARMUP = 40;
    private static final int STEPS = 21;

    /** Runs real steps, and takes the median of each time. */
    static Timeline measure(int batch) {
        try (StarlingModel model = new StarlingModel(Model.CNN)) {
            Recorder recorder = new Recorder(model.optimizer().parameters().size());
            TrainingStep step = new TrainingStep(model.network(), Loss.crossEntropy(), model.optimizer(),
                Generator.seeded(1), recorder);
            long[] shape = Model.CNN.batchShape(batch);
            Tensor images = Tensor.of(Inputs.normal(1, shape), shape);
            Tensor labels = Tensor.of(Inputs.labels(1, batch), batch);
            long[][] times = new long[recorder.order.length][STEPS];
            for (int i = 0; i < WARMUP + STEPS; i++) {
                step.run(images, labels);
                for (int k = 0; i >= WARMUP && k < times.length; k++) {
                    times[k][i - WARMUP] = recorder.nanos[k];
                }
            }
            images.close();
            labels.close();
            return new Timeline(recorder.order, Arrays.stream(times).mapToLong(Timeline::median).toArray());
        }
    }

    private static long median(long[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }

    static Timeline parse(String text) {
        String[] words = text.split(" ");
        int n = words.length / 2;
        int[] order = new int[n];
        long[] nanos = new long[n];
        for (int i = 0; i < n; i++) {
            order[i] = Integer.parseInt(words[2 * i]);
            nanos[i] = Long.parseLong(words[2 * i + 1]);
        }
        return new Timeline(order, nanos);
    }

    @Override
    public String toString() {
        StringJoiner text = new StringJoiner(" ");
        for (int i = 0; i < order.length; i++) {
            text.add(Integer.toString(order[i])).add(Long.toString(nanos[i]));
        }
        return text.toString();
    }

    /** Records times while one process trains. */
    private static final class Recorder extends SingleProcess {
        private final int[] order;
        private final long[] nanos;
        private long last;
        private int count;

        Recorder(int parameters) {
            order = new int[parameters];
            nanos = new long[parameters];
        }

        @Override
        public void beforeForward(Tensor input) {
            count = 0;
            last = System.nanoTime();
        }

        @Override
        public void gradient(int index, Tensor gradient) {
            long now = System.nanoTime();
            order[count] = index;
            nanos[count++] = now - last;
            last = now;
        }
    }
}
