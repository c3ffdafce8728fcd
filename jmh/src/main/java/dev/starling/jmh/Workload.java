package dev.starling.jmh;

import java.util.List;

/** A workload, described so that each engine can prepare its own {@link Case} of it. All numbers are f32. */
public sealed interface Workload {
    /** All workloads that {@code bench} runs, in order. */
    List<Workload> ALL = List.of(
        new Matmul(1024),
        new Matmul(2048),
        new Convolution(64, 32, 32, 32),
        new Convolution(64, 64, 64, 16),
        new Elementwise(Function.RELU, 16 << 20),
        new Elementwise(Function.ADD, 16 << 20),
        new Elementwise(Function.GELU, 16 << 20),
        new Reduction(4096, 4096, 0),
        new Reduction(4096, 4096, 1),
        new Softmax(4096, 1024),
        new LayerNorm(4096, 1024),
        new AddChain(1000, 16),
        new TrainingStep(Model.MLP, 128),
        new TrainingStep(Model.CNN, 64),
        new TrainingStep(Model.RESNET18, 32),
        new TrainingStep(Model.LSTM, 32),
        new TrainingStep(Model.GPT, 16),
        new Prediction(Model.RESNET18, 1),
        new Prediction(Model.RESNET18, 32));

    /** Returns a name without blanks, which {@code --only} matches. */
    String name();

    /** Returns the work of one run, in what {@link #unit} counts. */
    double work();

    /** Returns the unit of {@link #work} and of speeds. */
    default Unit unit() {
        return switch (this) {
            case Matmul _, Convolution _ -> Unit.GFLOPS;
            case Elementwise _, Reduction _, Softmax _, LayerNorm _ -> Unit.GIGABYTES;
            case AddChain _ -> Unit.NANOSECONDS;
            case TrainingStep _, Prediction _ -> Unit.SAMPLES;
        };
    }

    /** The unit of a speed. */
    enum Unit {
        /** Floating-point operations; a multiplication and an addition count as two. */
        GFLOPS("GFLOP/s", 1),
        /** Bytes that must at least be read and written. */
        GIGABYTES("GB/s", 1),
        /** Samples trained on or predicted. */
        SAMPLES("samples/s", 1e9),
        /** Operations, reported as the time of each. */
        NANOSECONDS("ns/op", 1);

        private final String label;
        private final double scale;

        Unit(String label, double scale) {
            this.label = label;
            this.scale = scale;
        }

        /** Returns the name to print. */
        public String label() {
            return label;
        }

        /** Converts the time of one run of {@code work} to this unit. */
        public double of(double work, double nanoseconds) {
            return this == NANOSECONDS ? nanoseconds / work : scale * work / nanoseconds;
        }
    }

    /** Elementwise functions. */
    enum Function {
        RELU(1), ADD(2),
        /** With the error function, not its approximation by a hyperbolic tangent. */
        GELU(1);

        private final int inputs;

        Function(int inputs) {
            this.inputs = inputs;
        }
    }

    /** Product of two square matrices. */
    record Matmul(int size) implements Workload {
        @Override
        public String name() {
            return "matmul-" + size;
        }

        @Override
        public double work() {
            return 2.0 * size * size * size;
        }
    }

    /** A 3×3 convolution of {@code [batch, inputs, size, size]}, padded by one: forward and both gradients. */
    record Convolution(int batch, int inputs, int outputs, int size) implements Workload {
        @Override
        public String name() {
            return "conv-" + inputs + "-" + outputs + "-" + size;
        }

        @Override
        public double work() {
            return 3.0 * 2 * 9 * batch * inputs * outputs * size * size;
        }
    }

    /** An elementwise function. */
    record Elementwise(Function function, int count) implements Workload {
        @Override
        public String name() {
            return function.name().toLowerCase(java.util.Locale.ROOT) + "-" + (count >> 20) + "Mi";
        }

        @Override
        public double work() {
            return 4.0 * count * (function.inputs + 1);
        }
    }

    /** Sums along one dimension of a matrix. */
    record Reduction(int rows, int columns, int axis) implements Workload {
        @Override
        public String name() {
            return (axis == 0 ? "sum-columns-" : "sum-rows-") + rows;
        }

        @Override
        public double work() {
            return 4.0 * rows * columns;
        }
    }

    /** Softmax of each row. */
    record Softmax(int rows, int columns) implements Workload {
        @Override
        public String name() {
            return "softmax-" + rows + "x" + columns;
        }

        @Override
        public double work() {
            return 8.0 * rows * columns;
        }
    }

    /** Layer normalisation of each row, with scale and shift. */
    record LayerNorm(int rows, int columns) implements Workload {
        @Override
        public String name() {
            return "layernorm-" + rows + "x" + columns;
        }

        @Override
        public double work() {
            return 8.0 * rows * columns;
        }
    }

    /** A chain of additions of small tensors, recorded for differentiation. */
    record AddChain(int length, int elements) implements Workload {
        @Override
        public String name() {
            return "chain-" + length;
        }

        @Override
        public double work() {
            return length;
        }
    }

    /** Forward alone, with batch norms folded into the convolutions before them. */
    record Prediction(Model model, int batch) implements Workload {
        @Override
        public String name() {
            return model.name().toLowerCase(java.util.Locale.ROOT) + "-infer-" + batch;
        }

        @Override
        public double work() {
            return batch;
        }
    }

    /** Forward, mean cross-entropy, backward, SGD with momentum. */
    record TrainingStep(Model model, int batch) implements Workload {
        @Override
        public String name() {
            return model.name().toLowerCase(java.util.Locale.ROOT) + "-" + batch;
        }

        @Override
        public double work() {
            return batch;
        }
    }
}
