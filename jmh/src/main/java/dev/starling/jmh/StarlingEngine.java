package dev.starling.jmh;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.Workload.Format;
import dev.starling.nn.Layer;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import java.util.ArrayList;
import java.util.List;

/** The workloads on Starling, eagerly, as an application would run them. */
final class StarlingEngine implements Engine {
    private static final String PLAIN = "plain";

    /** Makes the engine, whose operations use this number of threads. */
    StarlingEngine(int threads) {
        Threads.set(threads);
    }

    @Override
    public List<String> variants(Workload workload) {
        return List.of(PLAIN);
    }

    @Override
    public Case prepare(Workload workload, String variant) {
        Prepared prepared = new Prepared();
        prepared.work = switch (workload) {
            case Workload.Matmul(int n, Format format) -> {
                Tensor a = prepared.input(format, n, n);
                Tensor b = prepared.input(format, n, n);
                yield () -> a.matmul(b);
            }
            case Workload.Convolution c -> convolution(prepared, c);
            case Workload.Elementwise e -> elementwise(prepared, e);
            case Workload.Reduction(int rows, int columns, int axis) -> {
                Tensor x = prepared.input(rows, columns);
                yield () -> x.sum(axis);
            }
            case Workload.Softmax(int rows, int columns) -> {
                Tensor x = prepared.input(rows, columns);
                yield () -> x.softmax(1);
            }
            case Workload.LayerNorm(int rows, int columns) -> {
                Tensor x = prepared.input(rows, columns);
                Tensor scale = prepared.input(columns);
                Tensor shift = prepared.input(columns);
                yield () -> Norms.layerNorm(x, scale, shift, 1e-5);
            }
            case Workload.AddChain(int length, int elements) -> chain(prepared, length, elements);
            case Workload.TrainingStep(Model architecture, int batch, Update update) -> {
                StarlingModel model = new StarlingModel(architecture, update, update.rate());
                Tensor samples = prepared.input(architecture.batchShape(batch));
                Tensor labels = prepared.keep(Tensor.of(Inputs.labels(1, batch)));
                prepared.model = model;
                yield () -> model.step(samples, labels);
            }
            case Workload.Prediction(Model architecture, int batch) -> {
                prepared.model = new StarlingModel(architecture, Update.SGD, 0);
                Layer folded = prepared.model.network().folded();
                prepared.folded = folded;
                Tensor samples = prepared.input(architecture.batchShape(batch));
                yield () -> folded.forward(samples);
            }
            case Workload.Started started -> throw new IllegalArgumentException(started + " is not one run");
        };
        return prepared;
    }

    private static Runnable elementwise(Prepared prepared, Workload.Elementwise workload) {
        Tensor x = prepared.input(workload.count());
        Tensor y = prepared.input(workload.count());
        return switch (workload.function()) {
            case RELU -> x::relu;
            case ADD -> () -> x.add(y);
            case GELU -> x::gelu;
        };
    }

    private static Runnable convolution(Prepared prepared, Workload.Convolution c) {
        Tensor x = prepared.images(c.format(), c.batch(), c.size(), c.inputs());
        Tensor weight = prepared.input(c.format(), c.outputs(), c.inputs(), c.kernel(), c.kernel());
        Tensor gradient = prepared.images(c.format(), c.batch(), c.outputSize(), c.outputs());
        Tape tape = new Tape();
        return () -> {
            tape.reset().watch(x, weight);
            Tensor output = tape.record(() -> Convolutions.conv2d(x, weight, null, c.stride(), c.padding(), 1, 1));
            Gradients gradients = tape.backward(output, gradient);
            gradients.of(x);
            gradients.of(weight);
        };
    }

    private static Runnable chain(Prepared prepared, int length, int elements) {
        Tensor x = prepared.input(elements);
        Tensor step = prepared.input(elements);
        Tape tape = new Tape();
        return () -> {
            tape.reset().watch(x);
            tape.record(() -> {
                Tensor sum = x;
                for (int i = 0; i < length; i++) {
                    sum = sum.add(step);
                }
                return sum;
            });
        };
    }

    /** What one case owns. */
    private static final class Prepared implements Case {
        private final List<Tensor> kept = new ArrayList<>();
        private Runnable work;
        private StarlingModel model;
        private Layer folded;

        Tensor keep(Tensor tensor) {
            kept.add(tensor);
            return tensor;
        }

        Tensor input(long... shape) {
            return input(Format.F32, shape);
        }

        Tensor input(Format format, long... shape) {
            Tensor values = Tensor.of(Inputs.normal(kept.size(), shape), shape);
            if (format == Format.F32) {
                return keep(values);
            }
            try (values) {
                return keep(values.to(DType.BF16));
            }
        }

        /** Returns square images {@code [batch, channels, size, size]}, stored with channels last. */
        Tensor images(Format format, int batch, int size, int channels) {
            return input(format, batch, size, size, channels).permute(0, 3, 1, 2);
        }

        @Override
        public void run() {
            try (Scope step = Scope.open("case")) {
                work.run();
            }
        }

        @Override
        public void close() {
            if (folded != null) {
                folded.close();
            }
            if (model != null) {
                model.close();
            }
            kept.forEach(Tensor::close);
        }
    }
}
