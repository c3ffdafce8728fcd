package dev.starling.jmh.pytorch;

import dev.starling.jmh.Case;
import dev.starling.jmh.Engine;
import dev.starling.jmh.Inputs;
import dev.starling.jmh.Model;
import dev.starling.jmh.Workload.Format;
import dev.starling.jmh.Workload;
import dev.starling.jmh.pytorch.TorchModel.Layout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorArrayRefOptional;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;

/**
 * The workloads on PyTorch. Where an operation can write into an existing tensor, that is a variant: allocating a large
 * result causes page faults, which depend on the C library, not on PyTorch.
 */
public final class TorchEngine implements Engine {
    private static final String PLAIN = "plain";
    private static final String INTO = "into";
    private static final long[] ONE = {1, 1};

    /** Makes the engine, whose operations use this number of threads. */
    public TorchEngine(int threads) {
        Torch.threads(threads);
    }

    @Override
    public List<String> variants(Workload workload) {
        return switch (workload) {
            case Workload.Convolution c -> layouts();
            case Workload.TrainingStep(var model, var batch, var _) ->
                model.batchShape(batch).length == 4 ? layouts() : List.of(PLAIN);
            case Workload.Prediction p -> layouts();
            case Workload.Matmul m -> List.of(PLAIN, INTO);
            case Workload.Elementwise e -> List.of(PLAIN, INTO);
            case Workload.Softmax s -> List.of(PLAIN, INTO);
            case Workload.LayerNorm l -> List.of(PLAIN, INTO);
            case Workload.Reduction r -> List.of(PLAIN);
            case Workload.AddChain c -> List.of(PLAIN);
            case Workload.Started s -> List.of();
        };
    }

    @Override
    public Case prepare(Workload workload, String variant) {
        try (PointerScope temporaries = new PointerScope()) {
            Prepared prepared = new Prepared();
            boolean into = variant.equals(INTO);
            prepared.work = switch (workload) {
                case Workload.Matmul(int n, Format format) -> matmul(prepared, n, format, into);
                case Workload.Convolution c -> convolution(prepared, c, Layout.valueOf(variant));
                case Workload.Elementwise e -> elementwise(prepared, e, into);
                case Workload.Reduction(int rows, int columns, int axis) -> {
                    Tensor x = prepared.input(rows, columns);
                    yield () -> x.sum(axis);
                }
                case Workload.Softmax(int rows, int columns) -> {
                    Tensor x = prepared.input(rows, columns);
                    Tensor out = prepared.keep(torch.empty_like(x));
                    yield into ? () -> torch.softmax_out(out, x, 1) : () -> torch.softmax(x, 1);
                }
                case Workload.LayerNorm l -> layerNorm(prepared, l, into);
                case Workload.AddChain(int length, int elements) -> chain(prepared, length, elements);
                case Workload.TrainingStep step -> step(prepared, step, variant);
                case Workload.Prediction(Model architecture, int batch) -> {
                    TorchModel model = TorchModels.folded(architecture, Layout.valueOf(variant));
                    prepared.model = model;
                    Tensor samples = prepared.keep(model.prepare(prepared.input(architecture.batchShape(batch))));
                    yield () -> model.predict(samples);
                }
                case Workload.Started started -> throw new IllegalArgumentException(started + " is not one run");
            };
            return prepared;
        }
    }

    private static Supplier<Object> matmul(Prepared prepared, int n, Format format, boolean into) {
        Tensor a = prepared.input(format, n, n);
        Tensor b = prepared.input(format, n, n);
        Tensor out = prepared.keep(torch.empty_like(a));
        return into ? () -> torch.matmul_out(out, a, b) : () -> torch.matmul(a, b);
    }

    private static Supplier<Object> elementwise(Prepared prepared, Workload.Elementwise workload, boolean into) {
        Tensor x = prepared.input(workload.count());
        Tensor y = prepared.input(workload.count());
        Tensor out = prepared.keep(torch.empty_like(x));
        Scalar zero = prepared.keep(new Scalar(0.0f));
        return switch (workload.function()) {
            case RELU -> into ? () -> torch.clamp_min_out(out, x, zero) : () -> torch.relu(x);
            case ADD -> into ? () -> torch.add_out(out, x, y) : () -> torch.add(x, y);
            case GELU -> into ? () -> torch.gelu_out(out, x) : () -> torch.gelu(x);
        };
    }

    private static Supplier<Object> layerNorm(Prepared prepared, Workload.LayerNorm workload, boolean into) {
        Tensor x = prepared.input(workload.rows(), workload.columns());
        TensorOptional scale = prepared.keep(new TensorOptional(prepared.input(workload.columns())));
        TensorOptional shift = prepared.keep(new TensorOptional(prepared.input(workload.columns())));
        long[] normalised = {workload.columns()};
        if (!into) {
            return () -> torch.layer_norm(x, normalised, scale, shift, 1e-5, true);
        }
        Tensor out = prepared.keep(torch.empty_like(x));
        Tensor mean = prepared.keep(torch.empty(workload.rows(), 1));
        Tensor deviation = prepared.keep(torch.empty(workload.rows(), 1));
        return () -> torch.native_layer_norm_out(out, mean, deviation, x, normalised, scale, shift, 1e-5);
    }

    private static Supplier<Object> convolution(Prepared prepared, Workload.Convolution c, Layout layout) {
        Format format = c.format();
        Tensor x = prepared.keep(layout.apply(prepared.input(format, c.batch(), c.inputs(), c.size(), c.size())));
        Tensor weight = prepared.keep(layout.apply(
            prepared.input(format, c.outputs(), c.inputs(), c.kernel(), c.kernel())));
        Tensor gradient = prepared.keep(layout.apply(
            prepared.input(format, c.batch(), c.outputs(), c.outputSize(), c.outputSize())));
        long[] stride = {c.stride(), c.stride()};
        long[] padding = {c.padding(), c.padding()};
        x.set_requires_grad(true);
        weight.set_requires_grad(true);
        BoolOptional keepGraph = prepared.keep(new BoolOptional());
        TensorArrayRefOptional inputs = prepared.keep(new TensorArrayRefOptional());
        return () -> {
            Tensor output = torch.conv2d(x, weight, Torch.none(), stride, padding, ONE, 1);
            output.backward(gradient, keepGraph, false, inputs);
            x.mutable_grad().reset();
            weight.mutable_grad().reset();
            return output;
        };
    }

    private static Supplier<Object> chain(Prepared prepared, int length, int elements) {
        Tensor x = prepared.input(elements);
        Tensor step = prepared.input(elements);
        x.set_requires_grad(true);
        return () -> {
            Tensor sum = x;
            for (int i = 0; i < length; i++) {
                sum = torch.add(sum, step);
            }
            return sum;
        };
    }

    private static Supplier<Object> step(Prepared prepared, Workload.TrainingStep workload, String variant) {
        Layout layout = variant.equals(PLAIN) ? Layout.CONTIGUOUS : Layout.valueOf(variant);
        TorchModel model = TorchModels.create(workload.model(), layout, workload.update(), workload.update().rate());
        prepared.model = model;
        Tensor batch = prepared.keep(model.prepare(prepared.input(workload.model().batchShape(workload.batch()))));
        Tensor labels = prepared.keep(Torch.labels(Inputs.labels(1, workload.batch())));
        return () -> model.step(batch, labels);
    }

    private static List<String> layouts() {
        return Arrays.stream(Layout.values()).map(Layout::name).toList();
    }

    /** What one case owns. */
    private static final class Prepared implements Case {
        private final List<Pointer> kept = new ArrayList<>();
        private Supplier<Object> work;
        private TorchModel model;

        <P extends Pointer> P keep(P pointer) {
            pointer.retainReference();
            kept.add(pointer);
            return pointer;
        }

        Tensor input(long... shape) {
            return input(Format.F32, shape);
        }

        Tensor input(Format format, long... shape) {
            Tensor values = Torch.tensor(Inputs.normal(kept.size(), shape), shape);
            return keep(format == Format.F32 ? values : values.toType(torch.ScalarType.BFloat16));
        }

        @Override
        public void run() {
            try (PointerScope temporaries = new PointerScope()) {
                work.get();
            }
        }

        @Override
        public void close() {
            if (model != null) {
                model.close();
            }
            kept.forEach(Pointer::releaseReference);
        }
    }
}
