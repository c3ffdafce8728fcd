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
        TrainingStep.MLP,
        TrainingStep.CNN,
        TrainingStep.RESNET18,
        TrainingStep.LSTM,
        TrainingStep.GPT,
        new Prediction(Model.RESNET18, 1),
        new Prediction(Model.RESNET18, 32),
        new WithoutFlag(TrainingStep.MLP),
        new WithoutFlag(TrainingStep.CNN),
        new WithoutFlag(TrainingStep.RESNET18),
        new WithoutFlag(TrainingStep.LSTM),
        new WithoutFlag(TrainingStep.GPT),
        new FirstStep(TrainingStep.MLP),
        new FirstStep(TrainingStep.CNN),
        new FirstStep(TrainingStep.RESNET18),
        new FirstStep(TrainingStep.LSTM),
        new FirstStep(TrainingStep.GPT),
        new TimeToSpeed(TrainingStep.MLP),
        new TimeToSpeed(TrainingStep.CNN),
        new TimeToSpeed(TrainingStep.RESNET18),
        new TimeToSpeed(TrainingStep.LSTM),
        new TimeToSpeed(TrainingStep.GPT));

    /** Returns a name without blanks, for {@code --only}. */
    String name();

    /** Returns the work of one run, in what {@link #unit} counts. */
    double work();

    /** Returns the unit of {@link #work} and of speeds. */
    default Unit unit() {
        return switch (this) {
            case Matmul _, Convolution _ -> Unit.GFLOPS;
            case Elementwise _, Reduction _, Softmax _, LayerNorm _ -> Unit.GIGABYTES;
            case AddChain _ -> Unit.NANOSECONDS;
            case TrainingStep _, Prediction _, WithoutFlag _ -> Unit.SAMPLES;
            case FirstStep _, TimeToSpeed _ -> Unit.MILLISECONDS;
        };
    }

    /** The unit of a speed or time. */
    enum Unit {
        /** Floating-point operations; a multiplication and an addition count as two. */
        GFLOPS("GFLOP/s", 1),
        /** Bytes that must at least be read and written. */
        GIGABYTES("GB/s", 1),
        /** Samples trained on or predicted. */
        SAMPLES("samples/s", 1e9),
        /** Operations, reported as the time of each. */
        NANOSECONDS("ns/op", 1),
        /** Time. */
        MILLISECONDS("ms", 1e6);

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
            return this == NANOSECONDS || this == MILLISECONDS
                ? nanoseconds / (scale * work)
                : scale * work / nanoseconds;
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

    /** Forward, mean cross-entropy, backward, update. */
    record TrainingStep(Model model, int batch, Update update) implements Workload {
        private static final TrainingStep MLP = new TrainingStep(Model.MLP, 128, Update.ADAM);
        private static final TrainingStep CNN = new TrainingStep(Model.CNN, 128, Update.ADAM);
        private static final TrainingStep RESNET18 = new TrainingStep(Model.RESNET18, 32, Update.SGD);
        private static final TrainingStep LSTM = new TrainingStep(Model.LSTM, 32, Update.ADAM);
        private static final TrainingStep GPT = new TrainingStep(Model.GPT, 16, Update.ADAMW);

        @Override
        public String name() {
            return model.name().toLowerCase(java.util.Locale.ROOT) + "-" + batch;
        }

        @Override
        public double work() {
            return batch;
        }
    }

    /** A property of training steps that depends on how their process started. */
    sealed interface Started extends Workload {
        /** Returns the step. */
        TrainingStep step();

        @Override
        default double work() {
            return 1;
        }
    }

    /** Training steps of Starling in a process without {@code --add-modules jdk.incubator.vector}. */
    record WithoutFlag(TrainingStep step) implements Started {
        @Override
        public String name() {
            return step.name() + "-no-flag";
        }

        @Override
        public double work() {
            return step.work();
        }
    }

    /** The first training step of a process, whose model and batch are there. */
    record FirstStep(TrainingStep step) implements Started {
        @Override
        public String name() {
            return step.name() + "-first";
        }
    }

    /** From the start of a process's first training step until steps take 1/0.95 of their steady time or less. */
    record TimeToSpeed(TrainingStep step) implements Started {
        @Override
        public String name() {
            return step.name() + "-to-speed";
        }
    }
}
