package dev.starling.jmh;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** A workload, described so that each engine can prepare its own {@link Case} of it. */
public sealed interface Workload {
    /** The training steps that {@code bench} runs. */
    List<TrainingStep> TRAINING_STEPS = List.of(
        new TrainingStep(Model.MLP, 128, Update.ADAM),
        new TrainingStep(Model.CNN, 128, Update.ADAM),
        new TrainingStep(Model.RESNET18, 32, Update.SGD),
        new TrainingStep(Model.LSTM, 32, Update.ADAM),
        new TrainingStep(Model.GPT, 16, Update.ADAMW));

    /** All workloads that {@code bench} runs, in order. */
    List<Workload> ALL = Stream.<List<? extends Workload>>of(List.of(
        new Matmul(1024, Format.F32),
        new Matmul(2048, Format.F32),
        new Matmul(4096, Format.F32),
        new Matmul(1024, Format.BF16),
        new Matmul(2048, Format.BF16),
        new Matmul(4096, Format.BF16),
        new Convolution(64, 32, 32, 32, 3, 1, Format.F32),
        new Convolution(64, 64, 64, 16, 3, 1, Format.F32)),
        Convolution.ofResNet50(16, Format.BF16), List.of(
        new Elementwise(Function.RELU, 16 << 20),
        new Elementwise(Function.ADD, 16 << 20),
        new Elementwise(Function.GELU, 16 << 20),
        new Reduction(4096, 4096, 0),
        new Reduction(4096, 4096, 1),
        new Softmax(4096, 1024),
        new LayerNorm(4096, 1024),
        new AddChain(1000, 16)), TRAINING_STEPS, List.of(
        new Prediction(Model.RESNET18, 1),
        new Prediction(Model.RESNET18, 32)),
        TRAINING_STEPS.stream().map(WithoutFlag::new).toList(),
        TRAINING_STEPS.stream().map(FirstStep::new).toList(),
        TRAINING_STEPS.stream().map(TimeToSpeed::new).toList()).<Workload>flatMap(List::stream).toList();

    /** The type of all elements. */
    enum Format {
        /** IEEE 754 single precision. */
        F32,
        /** bfloat16: the upper half of a single. */
        BF16;

        /** Returns what precedes the name of a workload; f32 is not named. */
        private String prefix() {
            return this == F32 ? "" : "bf16-";
        }
    }

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
    record Matmul(int size, Format format) implements Workload {
        @Override
        public String name() {
            return format.prefix() + "matmul-" + size;
        }

        @Override
        public double work() {
            return 2.0 * size * size * size;
        }
    }

    /**
     * A convolution of {@code [batch, inputs, size, size]} by a square kernel, padded by half of it: forward and both
     * gradients. Images are stored as the engine's convolutions in a network read and write them.
     */
    record Convolution(int batch, int inputs, int outputs, int size, int kernel, int stride, Format format)
            implements Workload {
        /** The different convolutions of ResNet-50 on images of 224×224 pixels; a block's stride is that of its 3×3. */
        private static List<Workload> ofResNet50(int batch, Format format) {
            List<Workload> all = new ArrayList<>();
            all.add(new Convolution(batch, 3, 64, 224, 7, 2, format));
            for (int stage = 0; stage < 4; stage++) {
                int width = 64 << stage;
                int size = 56 >> stage;
                int stride = stage == 0 ? 1 : 2;
                int before = stage == 0 ? 64 : 2 * width;
                all.add(new Convolution(batch, before, width, size * stride, 1, 1, format));
                all.add(new Convolution(batch, width, width, size * stride, 3, stride, format));
                all.add(new Convolution(batch, width, 4 * width, size, 1, 1, format));
                all.add(new Convolution(batch, 4 * width, width, size, 1, 1, format));
                if (stage > 0) {
                    all.add(new Convolution(batch, before, 4 * width, size * stride, 1, stride, format));
                    all.add(new Convolution(batch, width, width, size, 3, 1, format));
                }
            }
            return all;
        }

        /** Returns the pixels added at each side. */
        public int padding() {
            return kernel / 2;
        }

        /** Returns the height and width of the result. */
        public int outputSize() {
            return (size - 1) / stride + 1;
        }

        @Override
        public String name() {
            return format.prefix() + "conv-" + inputs + "-" + outputs + "-" + size + (kernel == 3 ? "" : "-k" + kernel)
                    + (stride == 1 ? "" : "-s" + stride);
        }

        @Override
        public double work() {
            return 3.0 * 2 * kernel * kernel * batch * inputs * outputs * outputSize() * outputSize();
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
