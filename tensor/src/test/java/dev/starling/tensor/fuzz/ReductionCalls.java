package dev.starling.tensor.fuzz;

import static dev.starling.tensor.fuzz.ElementwiseCalls.floating;
import static dev.starling.tensor.fuzz.ElementwiseCalls.type;

import dev.starling.tensor.DType;
import dev.starling.tensor.Einsum;
import dev.starling.tensor.Reductions;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Calls of reductions, orderings and products. */
final class ReductionCalls {
    @FunctionalInterface
    private interface Along {
        Tensor of(Tensor x, int... axes);
    }

    private static final List<Map.Entry<String, Along>> ALONG = List.of(Map.entry("sum(", Tensor::sum),
            Map.entry("mean(", Tensor::mean), Map.entry("max(", Tensor::max), Map.entry("min(", Tensor::min),
            Map.entry("argmax(", Tensor::argmax), Map.entry("argmin(", Tensor::argmin),
            Map.entry("prod(", Tensor::prod), Map.entry("any(", Tensor::any), Map.entry("all(", Tensor::all),
            Map.entry("norm(", Tensor::norm), Map.entry("sum(true, ", (x, a) -> x.sum(true, a)),
            Map.entry("mean(true, ", (x, a) -> x.mean(true, a)), Map.entry("max(true, ", (x, a) -> x.max(true, a)),
            Map.entry("min(true, ", (x, a) -> x.min(true, a)),
            Map.entry("logSumExp(false, ", (x, a) -> x.logSumExp(false, a)),
            Map.entry("variance(1, false, ", (x, a) -> x.variance(1, false, a)));

    private ReductionCalls() {
    }

    private static String list(int... axes) {
        return Arrays.toString(axes).replaceAll("[\\[\\]]", "");
    }

    static Call along(Choices c) {
        Map.Entry<String, Along> f = ALONG.get(c.next(ALONG.size()));
        long[] dims = Operand.sizes(c, c.next(6));
        int[] axes = new int[c.next(dims.length + 1)];
        for (int i = 0; i < axes.length; i++) {
            axes[i] = c.axis(dims.length);
        }
        DType type = c.oneIn(3) ? type(c) : floating(c);
        Values values = f.getKey().startsWith("var") || f.getKey().startsWith("norm") || f.getKey().startsWith("prod")
                || f.getKey().startsWith("log") || f.getKey().startsWith("sum") || f.getKey().startsWith("mean")
                ? Values.USUAL : Values.ANY;
        String code = "x0." + f.getKey() + list(axes) + ")";
        return Call.of(code.replace(", )", ")"), x -> f.getValue().of(x[0], axes), Operand.of(c, type, values, dims));
    }

    static Call line(Choices c) {
        long[] dims = Operand.sizes(c, 1 + c.next(4));
        int axis = c.axis(dims.length);
        DType type = c.oneIn(4) ? type(c) : floating(c);
        Operand x0 = Operand.of(c, type, Values.USUAL, dims);
        return switch (c.next(5)) {
            case 0 -> Call.of("x0.softmax(" + axis + ")", x -> x[0].softmax(axis), x0);
            case 1 -> Call.of("x0.logSoftmax(" + axis + ")", x -> x[0].logSoftmax(axis), x0);
            case 2 -> Call.of("x0.cumsum(" + axis + ")", x -> x[0].cumsum(axis), x0);
            case 3 -> {
                boolean descending = c.oneIn(2);
                yield Call.of("x0.sort(" + axis + ", " + descending + ")", 1, x -> {
                    Reductions.Ordered o = x[0].sort(axis, descending);
                    return new Tensor[] {o.values(), o.indices()};
                }, x0);
            }
            default -> {
                boolean largest = c.oneIn(2);
                long k = c.whole(dims.length == 0 || axis < -dims.length || axis >= dims.length ? 1
                        : c.next((int) dims[axis < 0 ? axis + dims.length : axis] + 1));
                yield Call.of("x0.topk(" + k + "L, " + axis + ", " + largest + ")", 1, x -> {
                    Reductions.Ordered o = x[0].topk(k, axis, largest);
                    return new Tensor[] {o.values(), o.indices()};
                }, x0);
            }
        };
    }

    static Call matmul(Choices c) {
        DType type = c.oneIn(5) ? type(c) : floating(c);
        long[] s = Operand.sizes(c, 3);
        long[] lead = Operand.sizes(c, c.next(3));
        if (Arrays.stream(lead).reduce(1, (a, b) -> a * b) > 12) {
            lead = new long[0];
        }
        long[] a = c.oneIn(8) ? new long[] {s[1]} : joined(ElementwiseCalls.narrowed(c, lead), s[0], s[1]);
        long[] b = c.oneIn(8) ? new long[] {s[1]} : joined(ElementwiseCalls.narrowed(c, lead), s[1], s[2]);
        return Call.of("x0.matmul(x1)", x -> x[0].matmul(x[1]), Operand.of(c, type, Values.USUAL, a),
                Operand.of(c, c.oneIn(8) ? floating(c) : type, Values.USUAL, b));
    }

    static long[] joined(long[] lead, long... last) {
        long[] all = Arrays.copyOf(lead, lead.length + last.length);
        System.arraycopy(last, 0, all, lead.length, last.length);
        return all;
    }

    /** Equations of two or three operands with few distinct letters, in any order and number. */
    static Call einsum(Choices c) {
        Map<Character, Long> sizes = new LinkedHashMap<>();
        int count = 1 + c.next(3);
        StringBuilder equation = new StringBuilder();
        Operand[] operands = new Operand[count];
        DType type = c.oneIn(6) ? type(c) : floating(c);
        for (int i = 0; i < count; i++) {
            long[] dims = new long[c.next(4)];
            equation.append(i == 0 ? "" : ",");
            for (int d = 0; d < dims.length; d++) {
                char letter = (char) ('i' + c.next(5));
                sizes.computeIfAbsent(letter, k -> (long) c.ofInts(2, 3, 1, 4, 5, 0));
                equation.append(letter);
                dims[d] = sizes.get(letter);
            }
            operands[i] = Operand.of(c, type, Values.USUAL, dims);
        }
        if (!c.oneIn(4)) {
            equation.append("->");
            for (char letter : sizes.keySet()) {
                if (c.oneIn(2)) {
                    equation.insert(equation.indexOf("->") + 2, letter);
                }
            }
        }
        if (c.wild && c.oneIn(3)) {
            equation.append(c.of("->", ",", "z", "...", "1", "i", "->i->j", " ", ".."));
        }
        String text = equation.toString();
        return Call.of("Einsum.einsum(\"" + text + "\"" + ", x0, x1, x2".substring(0, 4 * count) + ")",
                x -> Einsum.einsum(text, x), operands);
    }
}
