package dev.starling.tensor.fuzz;

import static dev.starling.tensor.fuzz.ElementwiseCalls.floating;
import static dev.starling.tensor.fuzz.Operand.literal;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Pooling;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Calls of neural operations. */
final class NeuralCalls {
    private NeuralCalls() {
    }

    private static Operand usual(Choices c, DType type, long... dims) {
        return Operand.of(c, type, Values.USUAL, dims);
    }

    private static Operand tame(Choices c, DType type, long... dims) {
        return Operand.of(c, type, Values.TAME, dims);
    }

    static Call linear(Choices c) {
        DType type = floating(c);
        long[] s = Operand.sizes(c, 2);
        long out = Operand.sizes(c, 1)[0];
        long[] lead = c.of(new long[] {s[0]}, new long[0], new long[] {2, s[0] % 9});
        Epilogue epilogue = c.of(Epilogue.NONE, Epilogue.RELU, Epilogue.GELU);
        boolean biased = c.oneIn(2);
        Operand x0 = usual(c, type, ReductionCalls.joined(lead, s[1]));
        Operand x1 = usual(c, type, Math.min(out, 33), s[1]);
        String code = "Functions.linear(x0, x1, " + (biased ? "x2" : "null") + ", Epilogue." + epilogue + ")";
        return biased ? Call.of(code, x -> Functions.linear(x[0], x[1], x[2], epilogue), x0, x1,
                usual(c, type, Math.min(out, 33)))
                : Call.of(code, x -> Functions.linear(x[0], x[1], null, epilogue), x0, x1);
    }

    static Call dropout(Choices c) {
        double p = c.real(c.ofReals(0.5, 0.1, 0, 0.9));
        long seed = c.next(100);
        return Call.of("Functions.dropout(x0, " + literal(p) + ", Generator.seeded(" + seed + "))",
                x -> Functions.dropout(x[0], p, Generator.seeded(seed)),
                usual(c, floating(c), Operand.sizes(c, c.next(4))));
    }

    static Call attention(Choices c) {
        DType type = floating(c);
        long[] lead = c.of(new long[0], new long[] {2}, new long[] {2, 3}, new long[] {1});
        long queries = c.ofInts(1, 2, 3, 0, 5, 9, 17);
        long keys = c.ofInts(1, 2, 3, 0, 5, 9, 17);
        long width = c.ofInts(1, 2, 4, 0, 3, 8, 16, 5);
        long depth = c.oneIn(2) ? c.ofInts(1, 2, 3, 0, 17) : width;
        boolean causal = c.oneIn(2);
        double scale = c.ofReals(1, 0.5, 0.1, -0.1, 0, 3);
        double dropout = c.oneIn(8) ? c.real(0.3) : 0;
        List<Operand> operands = new ArrayList<>(List.of(
                tame(c, type, ReductionCalls.joined(ElementwiseCalls.narrowed(c, lead), queries, width)),
                tame(c, type, ReductionCalls.joined(ElementwiseCalls.narrowed(c, lead), keys, width)),
                tame(c, type, ReductionCalls.joined(ElementwiseCalls.narrowed(c, lead), keys, depth))));
        int mask = c.next(3);
        if (mask > 0) {
            Operand m = Operand.of(c, mask == 1 ? DType.BOOL : type, Values.TAME,
                    ElementwiseCalls.narrowed(c, ReductionCalls.joined(lead, queries, keys)));
            operands.add(mask == 1 ? m : hiding(c, m));
        }
        boolean masked = mask > 0;
        return new Call("Functions.scaledDotProductAttention(x0, x1, x2, " + (masked ? "x3" : "null") + ", " + causal
                + ", " + literal(dropout) + ", " + literal(scale) + ", Generator.seeded(1))", operands,
                x -> new Tensor[] {Functions.scaledDotProductAttention(x[0], x[1], x[2], masked ? x[3] : null, causal,
                dropout, scale, Generator.seeded(1))}, 1);
    }

    /** Returns the mask with -∞ at some positions, occasionally in whole rows. */
    private static Operand hiding(Choices c, Operand mask) {
        int every = c.ofInts(0, 1, 2, 3, 5);
        double[] reals = mask.reals().clone();
        for (int i = 0; i < reals.length && mask.dtype().isFloating(); i++) {
            reals[i] = every > 0 && i % every == 0 ? Double.NEGATIVE_INFINITY : reals[i];
        }
        return mask.layout() == Operand.Layout.DENSE ? new Operand(mask.dtype(), mask.dims(), mask.layout(), reals)
                : mask;
    }

    static Call conv(Choices c) {
        DType type = floating(c);
        int rank = 1 + c.next(3);
        int groups = c.ofInts(1, 2, 3);
        long in = groups * c.ofInts(1, 2, 3, 4);
        long out = groups * c.ofInts(1, 2, 3, 8);
        long batch = c.ofInts(1, 2, 3, 0);
        int[] stride = new int[rank];
        int[] padding = new int[rank];
        int[] dilation = new int[rank];
        long[] x = new long[rank + 2];
        long[] w = new long[rank + 2];
        for (int i = 0; i < rank; i++) {
            stride[i] = c.integer(c.ofInts(1, 2, 3));
            padding[i] = c.integer(c.ofInts(0, 1, 2));
            dilation[i] = c.integer(c.ofInts(1, 2, 3));
            w[i + 2] = c.ofInts(1, 2, 3, 4);
            x[i + 2] = c.ofInts(3, 4, 5, 1, 2, 7, 8);
        }
        boolean transposed = c.oneIn(3);
        int claimed = c.integer(groups);
        x[0] = batch;
        x[1] = transposed ? out : in;
        w[0] = out;
        w[1] = in / groups;
        boolean biased = c.oneIn(2);
        int extra = c.integer(c.ofInts(0, 1));
        Epilogue epilogue = c.of(Epilogue.NONE, Epilogue.RELU);
        Operand[] operands = {usual(c, type, x), usual(c, type, w), usual(c, type, transposed ? in : out)};
        String geometry = ", new Geometry(new int[] {" + list(stride) + "}, new int[] {" + list(padding)
                + "}, new int[] {" + list(dilation) + "}, " + claimed + "), ";
        String code = "Convolutions.conv" + (transposed ? "Transpose" : "") + "(x0, x1, " + (biased ? "x2" : "null")
                + geometry + (transposed ? "new int[] {" + String.join(", ", java.util.Collections.nCopies(rank,
                extra + "")) + "}" : "Epilogue." + epilogue) + ")";
        int[] outputPadding = new int[rank];
        Arrays.fill(outputPadding, extra);
        return Call.of(code, t -> {
            Convolution.Geometry g = new Convolution.Geometry(stride, padding, dilation, claimed);
            return transposed ? Convolutions.convTranspose(t[0], t[1], biased ? t[2] : null, g, outputPadding)
                    : Convolutions.conv(t[0], t[1], biased ? t[2] : null, g, epilogue);
        }, operands);
    }

    private static String list(int... values) {
        return Arrays.toString(values).replaceAll("[\\[\\]]", "");
    }

    static Call pool(Choices c) {
        int rank = 1 + c.next(3);
        int[] kernel = new int[rank];
        int[] stride = new int[rank];
        int[] padding = new int[rank];
        int[] dilation = new int[rank];
        long[] dims = new long[rank + 2];
        dims[0] = c.ofInts(1, 2, 0);
        dims[1] = c.ofInts(1, 2, 3, 8, 17);
        for (int i = 0; i < rank; i++) {
            kernel[i] = c.integer(c.ofInts(1, 2, 3, 4));
            stride[i] = c.integer(c.ofInts(1, 2, 3));
            padding[i] = c.integer(c.next(Math.max(1, Math.min(4, kernel[i]) / 2 + 1)));
            dilation[i] = c.integer(c.ofInts(1, 1, 1, 2));
            dims[i + 2] = c.ofInts(4, 3, 5, 1, 2, 7, 9);
        }
        boolean ceil = c.oneIn(3);
        boolean counted = c.oneIn(2);
        String window = "new Window(new int[] {" + list(kernel) + "}, new int[] {" + list(stride) + "}, new int[] {"
                + list(padding) + "}, new int[] {" + list(dilation) + "}, " + ceil + ")";
        Pooling.Window w = new Pooling.Window(kernel, stride, padding, dilation, ceil);
        return c.oneIn(2) ? Call.of("Pools.maxPool(x0, " + window + ")", x -> Pools.maxPool(x[0], w),
                Operand.of(c, c.oneIn(5) ? ElementwiseCalls.type(c) : floating(c), Values.ANY, dims))
                : Call.of("Pools.avgPool(x0, " + window + ", " + counted + ")", x -> Pools.avgPool(x[0], w, counted),
                usual(c, floating(c), dims));
    }

    static Call adaptive(Choices c) {
        int rank = 1 + c.next(3);
        long[] dims = new long[rank + 2];
        int[] out = new int[rank];
        dims[0] = c.ofInts(1, 2, 0);
        dims[1] = c.ofInts(1, 2, 3);
        for (int i = 0; i < rank; i++) {
            dims[i + 2] = c.ofInts(1, 2, 3, 4, 6, 7);
            out[i] = c.integer(c.ofInts(1, 2, 3, 4));
        }
        return c.oneIn(2) ? Call.of("Pools.adaptiveMaxPool(x0, " + list(out) + ")",
                x -> Pools.adaptiveMaxPool(x[0], out), usual(c, floating(c), dims))
                : Call.of("Pools.adaptiveAvgPool(x0, " + list(out) + ")", x -> Pools.adaptiveAvgPool(x[0], out),
                usual(c, floating(c), dims));
    }

    static Call norm(Choices c) {
        DType type = floating(c);
        DType weight = type.bytes() == 2 && c.oneIn(2) ? DType.F32 : type;
        double drawn = c.real(c.ofReals(1e-5, 1e-3, 0.1));
        // Without a significant epsilon, equal elements have no variance except that of rounding: any result is valid.
        double epsilon = Math.abs(drawn) < 1e-7 ? 1e-7 : drawn;
        long channels = c.ofInts(1, 2, 4, 3, 6, 17);
        long[] rest = Operand.sizes(c, c.next(3));
        if (Arrays.stream(rest).reduce(1, (a, b) -> a * b) > 70) {
            rest = new long[] {5};
        }
        long[] dims = ReductionCalls.joined(new long[] {c.ofInts(1, 2, 3, 5), channels}, rest);
        Operand x0 = usual(c, type, dims);
        Operand g = tame(c, weight, channels);
        Operand b = tame(c, weight, channels);
        String e = literal(epsilon) + ")";
        return switch (c.next(6)) {
            case 0 -> {
                Epilogue epilogue = c.of(Epilogue.NONE, Epilogue.RELU);
                String code = "Norms.batchNorm(x0, x1, x2, " + literal(epsilon) + ", Epilogue." + epilogue + ")";
                yield Call.of(code, 1, x -> {
                    Norms.Batch n = Norms.batchNorm(x[0], x[1], x[2], epsilon, epilogue);
                    return new Tensor[] {n.y(), n.mean(), n.inverseDeviation()};
                }, x0, g, b);
            }
            case 1 -> Call.of("Norms.batchNorm(x0, x1, x2, x3, x4, " + e,
                    x -> Norms.batchNorm(x[0], x[1], x[2], x[3], x[4], epsilon), x0, tame(c, weight, channels),
                    Operand.of(c, weight, Values.POSITIVE, channels), g, b);
            case 2 -> {
                int groups = c.integer(c.ofInts(1, 2, (int) channels));
                yield Call.of("Norms.groupNorm(x0, " + groups + ", x1, x2, " + e,
                        x -> Norms.groupNorm(x[0], groups, x[1], x[2], epsilon), x0, g, b);
            }
            case 3 -> Call.of("Norms.instanceNorm(x0, x1, x2, " + e,
                    x -> Norms.instanceNorm(x[0], x[1], x[2], epsilon), x0, g, b);
            case 4 -> Call.of("Norms.rmsNorm(x0, x1, " + e, x -> Norms.rmsNorm(x[0], x[1], epsilon), x0,
                    tame(c, weight, dims[dims.length - 1]));
            default -> {
                long[] inner = Arrays.copyOfRange(dims, c.ofInts(dims.length - 1, 1, 0), dims.length);
                boolean biased = c.oneIn(2);
                yield Call.of("Norms.layerNorm(x0, x1, " + (biased ? "x2, " : "null, ") + e,
                        x -> Norms.layerNorm(x[0], x[1], biased ? x[2] : null, epsilon), x0, tame(c, weight, inner),
                        tame(c, weight, inner));
            }
        };
    }

    static Call loss(Choices c) {
        DType type = floating(c);
        Losses.Reduce reduce = c.of(Losses.Reduce.values());
        String r = ", Losses.Reduce." + reduce;
        long[] dims = Operand.sizes(c, 2 + c.next(2));
        int kind = c.next(8);
        if (kind < 3) {
            long[] at = dims.length == 2 ? new long[] {dims[0]} : new long[] {dims[0], dims[2]};
            double smoothing = c.real(c.ofReals(0, 0.1, 1));
            long ignored = c.oneIn(2) ? Losses.NONE_IGNORED : c.ofInts(-100, 0, 1);
            Operand x0 = usual(c, type, dims);
            if (kind == 2) {
                return Call.of("Losses.crossEntropy(x0, x1" + r + ", " + literal(smoothing) + ", " + ignored + "L)",
                        x -> Losses.crossEntropy(x[0], x[1], reduce, smoothing, ignored), x0,
                        Operand.of(c, type, Values.POSITIVE, dims));
            }
            Operand target = Operand.indices(c, dims[1], at);
            return kind == 0 ? Call.of("Losses.crossEntropy(x0, x1" + r + ", " + literal(smoothing) + ", " + ignored
                    + "L)", x -> Losses.crossEntropy(x[0], x[1], reduce, smoothing, ignored), x0, target)
                    : Call.of("Losses.nllLoss(x0, x1" + r + ", " + ignored + "L)",
                    x -> Losses.nllLoss(x[0], x[1], reduce, ignored), x0, target);
        }
        Operand a = usual(c, type, dims);
        Operand b = usual(c, type, dims);
        double d = c.real(c.ofReals(1, 0.5, 2));
        return switch (kind) {
            case 3 -> Call.of("Losses.mseLoss(x0, x1" + r + ")", x -> Losses.mseLoss(x[0], x[1], reduce), a, b);
            case 4 -> Call.of("Losses.l1Loss(x0, x1" + r + ")", x -> Losses.l1Loss(x[0], x[1], reduce), a, b);
            case 5 -> Call.of("Losses.huberLoss(x0, x1" + r + ", " + literal(d) + ")",
                    x -> Losses.huberLoss(x[0], x[1], reduce, d), a, b);
            case 6 -> Call.of("Losses.smoothL1Loss(x0, x1" + r + ", " + literal(d) + ")",
                    x -> Losses.smoothL1Loss(x[0], x[1], reduce, d), a, b);
            default -> c.oneIn(2) ? Call.of("Losses.klDiv(x0, x1" + r + ")", x -> Losses.klDiv(x[0], x[1], reduce), a,
                    Operand.of(c, type, Values.POSITIVE, dims))
                    : Call.of("Losses.binaryCrossEntropyWithLogits(x0, x1" + r + ")",
                    x -> Losses.binaryCrossEntropyWithLogits(x[0], x[1], reduce), a, b);
        };
    }

    static Call recurrent(Choices c) {
        DType type = floating(c);
        int cell = c.next(4);
        int gates = cell == 0 ? 4 : cell == 1 ? 3 : 1;
        long steps = c.ofInts(1, 2, 3, 0, 5);
        long batch = c.ofInts(1, 2, 3, 0, 9);
        long inputs = c.ofInts(1, 2, 4, 0, 17);
        long units = c.ofInts(1, 2, 5, 0, 16);
        boolean biased = c.oneIn(2);
        boolean stated = c.oneIn(2);
        boolean limited = c.oneIn(2);
        boolean reverse = c.oneIn(2);
        List<Operand> operands = new ArrayList<>(List.of(tame(c, type, steps, batch, inputs),
                tame(c, type, gates * units, inputs), tame(c, type, gates * units, units),
                tame(c, type, gates * units), tame(c, type, gates * units), tame(c, type, batch, units),
                tame(c, type, batch, units)));
        if (limited) {
            Operand l = Operand.indices(c, Math.max(1, steps), batch);
            operands.add(new Operand(l.dtype(), l.dims(), l.layout(), c.wild ? l.reals()
                    : Arrays.stream(l.reals()).map(Math::abs).map(v -> Math.min(v, steps)).toArray()));
        }
        String w = "new Weights(x1, x2, " + (biased ? "x3, x4" : "null, null") + ")";
        String h = stated ? "x5, " : "null, ";
        String l = reverse + ", " + (limited ? "x7" : "null") + ")";
        String code = cell == 0 ? "Recurrences.lstm(x0, " + h + (stated ? "x6, " : "null, ") + w + ", " + l
                : cell == 1 ? "Recurrences.gru(x0, " + h + w + ", " + l
                : "Recurrences.rnn(x0, " + h + w + ", " + (cell == 3) + ", " + l;
        return new Call(code, operands, x -> {
            Recurrences.Weights weights = new Recurrences.Weights(x[1], x[2], biased ? x[3] : null,
                    biased ? x[4] : null);
            Tensor lengths = limited ? x[7] : null;
            Tensor state = stated ? x[5] : null;
            Recurrences.States s = cell == 0
                    ? Recurrences.lstm(x[0], state, stated ? x[6] : null, weights, reverse, lengths)
                    : cell == 1 ? Recurrences.gru(x[0], state, weights, reverse, lengths)
                    : Recurrences.rnn(x[0], state, weights, cell == 3, reverse, lengths);
            return s.c() == null ? new Tensor[] {s.y(), s.h()} : new Tensor[] {s.y(), s.h(), s.c()};
        }, 3);
    }
}
