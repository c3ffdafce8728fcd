package dev.starling.tensor.fuzz;

import static dev.starling.tensor.fuzz.ElementwiseCalls.type;

import dev.starling.tensor.DType;
import dev.starling.tensor.Index;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Calls of views and copies with other sizes, and of indexing. */
final class ShapeCalls {
    private ShapeCalls() {
    }

    private static Operand any(Choices c, long... dims) {
        return Operand.of(c, c.oneIn(2) ? type(c) : DType.F32, Values.ANY, dims);
    }

    private static String list(long... values) {
        return String.join(", ", Arrays.stream(values).mapToObj(v -> v + "L").toList());
    }

    static Call view(Choices c) {
        long[] dims = Operand.sizes(c, c.next(6));
        Operand x0 = any(c, dims);
        int a = c.axis(dims.length);
        int b = c.axis(dims.length);
        return switch (c.next(11)) {
            case 0 -> Call.of("x0.transpose(" + a + ", " + b + ").copy()", x -> x[0].transpose(a, b).copy(), x0);
            case 1 -> Call.of("x0.movedim(" + a + ", " + b + ")", x -> x[0].movedim(a, b), x0);
            case 2 -> Call.of("x0.flip(" + a + ")", x -> x[0].flip(a), x0);
            case 3 -> Call.of("x0.flatten(" + a + ", " + b + ")", x -> x[0].flatten(a, b), x0);
            case 4 -> Call.of("x0.unsqueeze(" + a + ")", x -> x[0].unsqueeze(a), x0);
            case 5 -> Call.of("x0.squeeze(" + a + ")", x -> x[0].squeeze(a), x0);
            case 6 -> Call.of("x0.squeeze()", x -> x[0].squeeze(), x0);
            case 7 -> Call.of("x0.t().contiguous()", x -> x[0].t().contiguous(), x0);
            case 8 -> {
                long offset = c.whole(c.next(7) - 3);
                yield Call.of("x0.diagonal(" + offset + "L, " + a + ", " + b + ")", x -> x[0].diagonal(offset, a, b),
                        x0);
            }
            case 9 -> Call.of("x0.trace()", x -> x[0].trace(), x0);
            default -> {
                long start = c.whole(c.next(4));
                long size = c.whole(c.next(4));
                yield Call.of("x0.narrow(" + a + ", " + start + "L, " + size + "L)", x -> x[0].narrow(a, start, size),
                        x0);
            }
        };
    }

    static Call reshape(Choices c) {
        long[] dims = Operand.sizes(c, c.next(5));
        long[] to = factors(c, Arrays.stream(dims).reduce(1, (p, q) -> p * q));
        if (to.length > 0 && c.oneIn(4)) {
            to[c.next(to.length)] = -1;
        }
        for (int i = 0; i < to.length; i++) {
            to[i] = c.whole(to[i]);
        }
        return Call.of("x0.reshape(" + list(to) + ")", x -> x[0].reshape(to), any(c, dims));
    }

    private static long[] factors(Choices c, long count) {
        List<Long> to = new ArrayList<>();
        long rest = count;
        for (int i = c.next(4); i > 0; i--) {
            long factor = c.ofInts(1, 2, 3, 4, 5, 7);
            factor = rest % factor == 0 ? factor : 1;
            to.add(factor);
            rest /= factor;
        }
        to.add(c.next(to.size() + 1), rest);
        return to.stream().mapToLong(Long::longValue).toArray();
    }

    static Call expand(Choices c) {
        long[] dims = Operand.sizes(c, c.next(5));
        long[] from = ElementwiseCalls.narrowed(c, dims);
        long[] to = dims.clone();
        for (int i = 0; i < to.length; i++) {
            to[i] = c.wild && c.oneIn(8) ? c.whole(to[i]) : to[i];
        }
        return c.oneIn(2) ? Call.of("x0.expand(" + list(to) + ").contiguous()",
                x -> x[0].expand(to).contiguous(), any(c, from))
                : Call.of("x0.sumTo(Shape.of(" + list(from) + "))", x -> x[0].sumTo(Shape.of(from)),
                Operand.of(c, type(c), Values.USUAL, dims));
    }

    static Call pad(Choices c) {
        long[] dims = Operand.sizes(c, c.next(4));
        long[] before = new long[dims.length];
        long[] after = new long[dims.length];
        for (int i = 0; i < dims.length; i++) {
            before[i] = c.whole(c.next(3));
            after[i] = c.whole(c.next(3));
        }
        double value = c.real(c.ofReals(0, 1, -1));
        return Call.of("x0.pad(new long[] {" + list(before) + "}, new long[] {" + list(after) + "}, "
                + Operand.literal(value) + ")", x -> x[0].pad(before, after, value), any(c, dims));
    }

    static Call join(Choices c) {
        int n = 1 + c.next(3);
        boolean stack = c.oneIn(2);
        long[] dims = Operand.sizes(c, stack ? c.next(4) : 1 + c.next(3));
        int axis = c.axis(dims.length);
        Operand[] operands = new Operand[c.wild && c.oneIn(8) ? 0 : n];
        DType type = type(c);
        for (int i = 0; i < operands.length; i++) {
            long[] d = dims.clone();
            if (!stack && axis >= -d.length && axis < d.length) {
                d[axis < 0 ? axis + d.length : axis] = c.next(4);
            }
            operands[i] = Operand.of(c, c.oneIn(6) ? type(c) : type, Values.ANY, d);
        }
        String all = ", x0, x1, x2".substring(0, 4 * operands.length) + ")";
        return stack ? Call.of("Tensor.stack(" + axis + all, x -> Tensor.stack(axis, x), operands)
                : Call.of("Tensor.concat(" + axis + all, x -> Tensor.concat(axis, x), operands);
    }

    static Call rearrange(Choices c) {
        long[] dims = Operand.sizes(c, c.next(4));
        int axis = c.axis(dims.length);
        long n = c.whole(c.next(5));
        Operand x0 = any(c, dims);
        return switch (c.next(7)) {
            case 0 -> Call.of("x0.roll(" + axis + ", " + n + "L)", x -> x[0].roll(axis, n), x0);
            case 1 -> Call.of("x0.repeat(" + axis + ", " + n + "L)", x -> x[0].repeat(axis, n), x0);
            case 2 -> Call.of("x0.tril(" + n + "L)", x -> x[0].tril(n), x0);
            case 3 -> Call.of("x0.triu(" + n + "L)", x -> x[0].triu(n), x0);
            case 4 -> Call.of("x0.split(" + axis + ", " + n + "L)", 8, x -> x[0].split(axis, n), x0);
            case 5 -> Call.of("x0.chunk(" + axis + ", " + (int) n + ")", 8, x -> x[0].chunk(axis, (int) n), x0);
            default -> {
                long m = c.whole(c.next(3));
                yield Call.of("x0.tile(" + n + "L, " + m + "L)", x -> x[0].tile(n, m), x0);
            }
        };
    }

    static Call select(Choices c) {
        long[] dims = Operand.sizes(c, 1 + c.next(3));
        int axis = c.axis(dims.length);
        boolean there = axis >= -dims.length && axis < dims.length;
        int a = there ? axis < 0 ? axis + dims.length : axis : 0;
        DType type = c.oneIn(2) ? type(c) : DType.F32;
        Operand x0 = Operand.of(c, type, Values.USUAL, dims);
        long[] within = dims.clone();
        within[a] = c.next(5);
        for (int i = 0; i < within.length; i++) {
            within[i] = i != a && c.oneIn(4) ? c.next((int) dims[i] + 1) : within[i];
        }
        return switch (c.next(4)) {
            case 0 -> Call.of("x0.take(" + axis + ", x1)", x -> x[0].take(axis, x[1]), x0,
                    Operand.indices(c, dims[a], Operand.sizes(c, c.next(3))));
            case 1 -> Call.of("x0.gather(" + axis + ", x1)", x -> x[0].gather(axis, x[1]), x0,
                    Operand.indices(c, dims[a], within));
            case 2 -> Call.of("x0.scatterAdd(" + axis + ", x1, x2)", x -> x[0].scatterAdd(axis, x[1], x[2]), x0,
                    Operand.indices(c, dims[a], within), Operand.of(c, type, Values.USUAL, within));
            default -> Call.of("x0.scatter(" + axis + ", x1, x2)", x -> x[0].scatter(axis, x[1], x[2]), x0,
                    Operand.indices(c, dims[a], within), Operand.of(c, type, Values.USUAL, within));
        };
    }

    static Call choose(Choices c) {
        long[] dims = Operand.sizes(c, c.next(4));
        Operand x0 = any(c, dims);
        return switch (c.next(3)) {
            case 0 -> Call.of("x0.nonzero()", x -> x[0].nonzero(), x0);
            case 1 -> Call.of("x0.maskedSelect(x1)", x -> x[0].maskedSelect(x[1]), x0,
                    Operand.of(c, DType.BOOL, Values.ANY, ElementwiseCalls.narrowed(c, dims)));
            default -> {
                long classes = c.whole(c.next(6));
                yield Call.of("x0.oneHot(" + classes + "L)", x -> x[0].oneHot(classes), Operand.indices(c, 5, dims));
            }
        };
    }

    /** Positions, ranges, new axes, an ellipsis, arrays and masks, mixed. */
    static Call index(Choices c) {
        long[] dims = Operand.sizes(c, c.next(5));
        List<Operand> operands = new ArrayList<>(List.of(any(c, dims)));
        List<String> code = new ArrayList<>();
        List<java.util.function.Function<Tensor[], Index>> parts = new ArrayList<>();
        for (int d = 0; d < dims.length && !c.oneIn(6); d++) {
            long size = dims[d];
            switch (c.next(6)) {
                case 0 -> {
                    long from = c.whole(c.oneIn(3) ? Index.OPEN : c.next((int) size + 2) - 1);
                    long to = c.whole(c.oneIn(3) ? Index.OPEN : c.next((int) size + 2) - 1);
                    long step = c.whole(c.ofInts(1, 2, -1, -2, 3));
                    code.add("Index.range(" + from + "L, " + to + "L, " + step + "L)");
                    parts.add(x -> Index.range(from, to, step));
                }
                case 1 -> {
                    long at = c.whole(size == 0 ? 0 : c.next(2 * (int) size) - size);
                    code.add("Index.at(" + at + "L)");
                    parts.add(x -> Index.at(at));
                }
                case 2 -> {
                    code.add("Index.newAxis()");
                    parts.add(x -> Index.newAxis());
                    d--;
                }
                case 3 -> {
                    code.add("Index.ellipsis()");
                    parts.add(x -> Index.ellipsis());
                }
                case 4 -> {
                    int i = operands.size();
                    operands.add(Operand.indices(c, size, c.oneIn(2) ? new long[] {3} : new long[] {2, 1}));
                    code.add("Index.of(x" + i + ")");
                    parts.add(x -> Index.of(x[i]));
                }
                default -> {
                    int i = operands.size();
                    operands.add(Operand.of(c, DType.BOOL, Values.ANY, size));
                    code.add("Index.mask(x" + i + ")");
                    parts.add(x -> Index.mask(x[i]));
                }
            }
        }
        return new Call("x0.get(" + String.join(", ", code) + ")", operands,
                x -> new Tensor[] {x[0].get(parts.stream().map(p -> p.apply(x)).toArray(Index[]::new))}, 1);
    }
}
