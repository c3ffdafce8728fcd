package dev.starling.jmh.gpu;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.Case;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.program.Program;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.Supplier;

/** Starling's side of each {@link GpuWorkload}, on the current device. */
final class GpuCases {
    private final Generator generator = Generator.seeded(7);
    private final String name;
    private final DType type;
    private final long[] sizes;
    /** The captured program of a case, or {@code null}. */
    private Program program;

    private GpuCases(String[] words) {
        name = words[0];
        type = DType.valueOf(words[1].toUpperCase(Locale.ROOT));
        sizes = Arrays.stream(words).skip(2).filter(w -> Character.isDigit(w.charAt(0))).mapToLong(Long::parseLong)
                .toArray();
    }

    /** Makes the case of a workload. */
    static Case of(GpuWorkload workload) {
        String[] words = workload.order().replaceFirst("^host ", "").split(" ");
        GpuCases cases = new GpuCases(words);
        if (workload.isTraining()) {
            return TrainingCase.of(words[0], cases.type, cases.sizes, words[words.length - 1].equals("captured"));
        }
        Scope inputs = Scope.open("inputs");
        Supplier<?> work = words[0].equals("chain") ? cases.chain() : cases.work();
        return new Case() {
            @Override
            public void run() {
                try (Scope scope = Scope.open("case")) {
                    work.get();
                }
            }

            @Override
            public void close() {
                if (cases.program != null) {
                    cases.program.close();
                }
                inputs.close();
            }
        };
    }

    /** A captured chain of elementwise operations; PyTorch compiles its chain. */
    private Supplier<?> chain() {
        Tensor[] operands = {noise(sizes), noise(sizes), noise(sizes)};
        // A program copies its inputs at each run; the operands are captured, so they are not copied.
        Tensor in = noise(1);
        try (Scope first = Scope.open("capture")) {
            program = Program.capture(null, none -> new Tensor[] {
                operands[0].mul(operands[1]).add(operands[2]).gelu()}, in).program();
        }
        return () -> program.run(in);
    }

    private Supplier<?> work() {
        Tensor a = name.matches("conv|attention|padded|lstm|batchnorm") ? null
                : name.equals("matmul") ? noise(sizes[0], sizes[0]) : noise(sizes);
        return switch (name) {
            case "copy" -> a::copy;
            case "add" -> {
                Tensor b = noise(sizes);
                yield () -> a.add(b);
            }
            case "gelu" -> a::gelu;
            case "bias" -> {
                Tensor bias = noise(sizes[1]);
                yield () -> a.add(bias);
            }
            case "transpose" -> () -> a.transpose(0, 1).contiguous();
            case "cast" -> () -> a.to(DType.F64);
            case "softmax" -> () -> a.softmax(1);
            case "layernorm" -> {
                Tensor weight = noise(sizes[1]);
                Tensor bias = noise(sizes[1]);
                yield () -> Norms.layerNorm(a, weight, bias, 1e-5);
            }
            case "sum" -> () -> a.sum(1);
            case "matmul" -> {
                Tensor b = noise(sizes[0], sizes[0]);
                yield () -> a.matmul(b);
            }
            case "conv" -> convolution();
            case "batchnorm" -> batchNorm();
            case "attention" -> attention(null);
            case "padded" -> attention(padding());
            case "lstm" -> lstm();
            default -> throw new IllegalArgumentException("unknown case " + name);
        };
    }

    /** A 3×3 convolution and both gradients; sizes are batch, inputs, outputs, side. */
    private Supplier<?> convolution() {
        Tensor x = images(sizes[0], sizes[1], sizes[3]);
        Tensor weight = noise(sizes[2], sizes[1], 3, 3);
        return differentiated(() -> Convolutions.conv2d(x, weight, null, 1, 1, 1, 1),
                images(sizes[0], sizes[2], sizes[3]), x, weight);
    }

    /** Batch normalisation with ReLU and its gradients; sizes are batch, channels, side. */
    private Supplier<?> batchNorm() {
        Tensor x = images(sizes[0], sizes[1], sizes[2]);
        Spec weights = new Spec(DType.F32, Shape.of(sizes[1]), Device.current());
        Tensor gamma = generator.uniform(weights, -1, 1);
        Tensor beta = generator.uniform(weights, -1, 1);
        return differentiated(() -> Norms.batchNorm(x, gamma, beta, 1e-5, Epilogue.RELU).y(),
                images(sizes[0], sizes[1], sizes[2]), x, gamma, beta);
    }

    /** Square images, channels last. */
    private Tensor images(long batch, long channels, long side) {
        return noise(batch, side, side, channels).permute(0, 3, 1, 2);
    }

    /** Attention, causal without a mask, and its gradients; sizes are batch, heads, length, width of a head. */
    private Supplier<?> attention(Tensor mask) {
        Tensor q = noise(sizes);
        Tensor k = noise(sizes);
        Tensor v = noise(sizes);
        return differentiated(() -> Functions.scaledDotProductAttention(q, k, v, mask, mask == null, 0,
                1 / Math.sqrt(sizes[3]), null), noise(sizes), q, k, v);
    }

    /** Returns {@code [batch, 1, 1, length]}, true for the keys of sequences of increasing length. */
    private Tensor padding() {
        int batch = Math.toIntExact(sizes[0]);
        int length = Math.toIntExact(sizes[2]);
        float[] inside = new float[batch * length];
        for (int n = 0; n < batch; n++) {
            Arrays.fill(inside, n * length, n * length + Math.ceilDiv((n + 1) * length, batch), 1);
        }
        return Tensor.of(inside).gt(0.5).reshape(batch, 1, 1, length);
    }

    /** A layer and all its gradients; sizes are steps, batch, inputs, units. */
    private Supplier<?> lstm() {
        Tensor x = noise(sizes[0], sizes[1], sizes[2]);
        long rows = 4 * sizes[3];
        Recurrences.Weights w = new Recurrences.Weights(noise(rows, sizes[2]), noise(rows, sizes[3]), noise(rows),
                noise(rows));
        return differentiated(() -> Recurrences.lstm(x, null, null, w, false, null).y(),
                noise(sizes[0], sizes[1], sizes[3]), x, w.input(), w.recurrent(), w.bias(), w.recurrentBias());
    }

    private static Supplier<?> differentiated(Supplier<Tensor> forward, Tensor cotangent, Tensor... of) {
        Tape tape = new Tape();
        return () -> {
            tape.reset().watch(of);
            Gradients gradients = tape.backward(tape.record(forward), cotangent);
            for (Tensor x : of) {
                gradients.of(x);
            }
            return gradients;
        };
    }

    private Tensor noise(long... shape) {
        return generator.uniform(new Spec(type, Shape.of(shape), Device.current()), -1, 1);
    }
}
